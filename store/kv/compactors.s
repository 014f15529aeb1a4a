// Functions without a body, such as those of compactors.go, are allowed in packages with assembly.

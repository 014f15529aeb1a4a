package node

import (
	"errors"

	"peerd/crawl/deny"
	"peerd/node/config"
)

// ErrDenyRule means that a text, or a line of the deny list, is no rule.
var ErrDenyRule = deny.ErrRule

// AddDenied adds rules to the deny list of a home and returns how many are new. A peer that runs
// follows them from its next request on. If a text is no rule (see deny.Parse), nothing is changed.
func AddDenied(home config.Home, texts ...string) (added int, err error) {
	rules, err := denyRules(texts)
	if err != nil {
		return 0, err
	}
	return deny.Add(home.DenyFile(), rules...)
}

// RemoveDenied is the opposite of AddDenied. It returns how many rules the list had.
func RemoveDenied(home config.Home, texts ...string) (removed int, err error) {
	rules, err := denyRules(texts)
	if err != nil {
		return 0, err
	}
	return deny.Remove(home.DenyFile(), rules...)
}

// Denied returns the rules of the deny list of a home.
func Denied(home config.Home) (texts []string, err error) {
	rules, err := deny.Read(home.DenyFile())
	for _, r := range rules {
		texts = append(texts, r.String())
	}
	return texts, err
}

func denyRules(texts []string) (rules []deny.Rule, err error) {
	var errs []error
	for _, text := range texts {
		r, err := deny.Parse(text)
		rules, errs = append(rules, r), append(errs, err)
	}
	return rules, errors.Join(errs...)
}

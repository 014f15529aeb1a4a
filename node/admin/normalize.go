package admin

import "reflect"

// filled returns v with empty lists and maps in place of nil ones, so that clients never see null
// for one. It does not change what v refers to, which the peer may keep.
func filled(v any) any {
	out := reflect.New(reflect.TypeOf(v)).Elem()
	out.Set(reflect.ValueOf(v))
	fill(out)
	return out.Interface()
}

// fill fills v, which is a copy; what v refers to is copied before it is filled.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Slice:
		some := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(some, v)
		v.Set(some)
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Map:
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			to := reflect.New(v.Type().Elem())
			to.Elem().Set(v.Elem())
			fill(to.Elem())
			v.Set(to)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				fill(f)
			}
		}
	}
}

package witness

import (
	"peerd/store"
)

// dataPrefix is the prefix of the keys of OnDB in the database.
const dataPrefix = "witness/"

// OnDB returns a Store in the peer's database.
func OnDB(db *store.DB) Store { return onDB{db} }

type onDB struct{ db *store.DB }

func (d onDB) Each(fn func(key string, val []byte) error) error {
	return d.db.EachData(dataPrefix, fn)
}

func (d onDB) Write(vals map[string][]byte) error {
	err := d.db.Batch(func(tx *store.Tx) error {
		for key, val := range vals {
			var err error
			if val == nil {
				err = tx.DeleteData(dataPrefix + key)
			} else {
				err = tx.PutData(dataPrefix+key, val)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return d.db.Sync()
}

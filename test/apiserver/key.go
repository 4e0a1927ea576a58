package apiserver

// Key identifies an object.
type Key struct{ Resource, Namespace, Name string }

// KeyOf returns the key of an object.
func KeyOf(resource, namespace, name string) Key { return Key{resource, namespace, name} }

func (k Key) String() string { return k.Resource + "/" + Placed(k.Namespace, k.Name) }

// Placed returns a name, with its namespace if it is not the default: see Place.
func Placed(namespace, name string) string {
	if namespace == Namespace || namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// NameOf returns the placed name of an object.
func NameOf(obj Object) string { return Placed(obj.GetNamespace(), obj.GetName()) }

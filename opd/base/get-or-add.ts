interface Mapping<Key, Value> {
  get(key: Key): Value | undefined
  set(key: Key, value: Value): unknown
}

/**
 * The value of a key. If it is absent, the result of `make`, which is then set.
 *
 * @param map is changed if the key is absent
 * @param key compared as the map does
 * @param make is called at most once; what it throws reaches the caller, and nothing is set
 */
export function getOrAdd<Key, Value>(
  map: Mapping<Key, Value>,
  key: Key,
  make: () => NoInfer<Value>,
): Value {
  const known = map.get(key)
  if (known !== undefined) return known
  const value = make()
  map.set(key, value)
  return value
}

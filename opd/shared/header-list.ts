/** Header fields as node:http lists them: `[name, value, name, value, …]`, in the order of the wire. */

/** How often a field is in the list; `name` in lower case. */
export function occurrences(raw: readonly string[], name: string): number {
  let count = 0
  for (let at = 0; at < raw.length; at += 2)
    if (raw[at]!.length === name.length && raw[at]!.toLowerCase() === name) count++
  return count
}

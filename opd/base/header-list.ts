/** Header lists in the form of node:http: `[name, value, name, value, …]`, in the order received. */

/** The number of fields with this name, given in lower case. */
export function occurrences(raw: readonly string[], name: string): number {
  let count = 0
  for (let at = 0; at < raw.length; at += 2)
    if (raw[at]!.length === name.length && raw[at]!.toLowerCase() === name) count++
  return count
}

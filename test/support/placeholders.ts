/** Expected bodies with placeholders, `⟦PRICE:0⟧`, filled from the actual body. */

interface Placeholders {
  /** `PRICE:0` -> what it matched. */
  values: Map<string, string>
}

const placeholder = /⟦([A-Z]+:\d+)⟧/g

/** What the placeholders match, or why the body is not the expected one. */
export function matchPlaceholders(expected: string, actual: string): Placeholders | string {
  const names: string[] = []
  let pattern = ''
  let last = 0
  for (const match of expected.matchAll(placeholder)) {
    pattern += RegExp.escape(expected.slice(last, match.index))
    pattern += match[1]!.startsWith('CTX') ? '([A-Za-z0-9_-]{1,512})' : '([^"<>&,}\\s\\\\]+?)'
    names.push(match[1]!)
    last = match.index + match[0].length
  }
  pattern += RegExp.escape(expected.slice(last))
  const found = new RegExp(`^${pattern}$`, 's').exec(actual)
  if (found === null) return `expected ${expected}\n     got ${actual}`
  const values = new Map<string, string>()
  for (const [index, name] of names.entries()) {
    const value = found[index + 1]!
    if ((values.get(name) ?? value) !== value)
      return `${name} is both ${values.get(name)} and ${value}`
    values.set(name, value)
  }
  const contexts = [...values].filter(([name]) => name.startsWith('CTX')).map(([, value]) => value)
  if (new Set(contexts).size !== contexts.length) return 'two bids share a context'
  for (const [name, value] of values) {
    const [kind, bid] = name.split(':')
    const price = values.get(`PRICE:${bid}`)
    if (kind === 'OUT' && price !== undefined && Number(price) !== Number(value))
      return `OUT ${value} is not PRICE ${price}`
    if (kind === 'PRICE' && !/^\d+(\.\d{1,6})?$/.test(value)) return `${value} is no plain decimal`
  }
  return { values }
}

/** Reads a CSV file that a person has: of a supplier, or from a spreadsheet. */

/** Bytes and rows of a file that is read. */
export const mostBytes = 5_000_000
const mostRows = 100_000

/** @typedef {{ names: string[], rows: string[][] }} Csv */

/** The delimiter that is in the first line most often, outside of quotes. @param {string} text */
function delimiterOf(text) {
  const line = (/^[^\r\n]*/.exec(text)?.[0] ?? '').replaceAll(/"[^"]*"/g, '')
  const counts = [',', ';', '\t'].map((each) => ({ each, count: line.split(each).length }))
  return counts.reduce((most, one) => (one.count > most.count ? one : most)).each
}

/** RFC 4180, with commas, semicolons or tabs. Throws an Error that names the line. @param {string} file @returns {Csv} */
export function parseCsv(file) {
  const text = file.replace(/^\uFEFF/, '')
  const delimiter = delimiterOf(text)
  /** @type {string[][]} */
  const lines = []
  let cells = /** @type {string[]} */ ([])
  let at = 0
  while (at < text.length) {
    let cell = ''
    if (text[at] === '"') {
      for (at += 1; ; at += 1) {
        const end = text.indexOf('"', at)
        if (end === -1) throw new Error(`line ${lines.length + 1}: a quote is not closed`)
        cell += text.slice(at, end)
        at = end + 1
        if (text[at] !== '"') break
        cell += '"'
      }
    }
    const rest = at
    while (at < text.length && text[at] !== delimiter && text[at] !== '\n' && text[at] !== '\r')
      at += 1
    cells.push((cell + text.slice(rest, at)).trim())
    if (text[at] === delimiter) {
      at += 1
      if (at === text.length) cells.push('')
      else continue
    }
    if (text[at] === '\r') at += 1
    if (text[at] === '\n') at += 1
    if (cells.some((each) => each !== '')) lines.push(cells)
    cells = []
    if (lines.length > mostRows + 1) throw new Error(`more than ${mostRows} rows`)
  }
  const [names = [], ...rows] = lines
  if (rows.length === 0) throw new Error('the file has no row below its names')
  const odd = rows.findIndex((row) => row.length > names.length)
  if (odd !== -1) throw new Error(`row ${odd + 2} has more cells than there are names`)
  return { names, rows }
}

/** `1,234.5`, `1.234,5`, `USD 12` and `12 %` are numbers; null: the text is no number. @param {string} text */
export function numberOf(text) {
  const digits = text.replace(/^'/, '').replaceAll(/[^\d.,+-]/g, '')
  if (!/\d/.test(digits)) return null
  const last = Math.max(digits.lastIndexOf('.'), digits.lastIndexOf(','))
  const marks = digits.match(/[.,]/g) ?? []
  const isGroup =
    marks.length > 1 ? new Set(marks).size === 1 : digits.includes(',') && /,\d{3}$/.test(digits)
  const plain =
    last === -1 || isGroup
      ? digits.replaceAll(/[.,]/g, '')
      : `${digits.slice(0, last).replaceAll(/[.,]/g, '')}.${digits.slice(last + 1)}`
  const value = Number(plain)
  return Number.isFinite(value) ? value : null
}

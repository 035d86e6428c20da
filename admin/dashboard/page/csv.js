/** Reads a CSV file that a person has: of a supplier, or from a spreadsheet. */

/** Bytes and rows of a file that is read. */
export const mostBytes = 5_000_000
const mostRows = 100_000

/** @typedef {{ names: string[], rows: string[][] }} Csv */

/** The delimiter that is in the first line most often, outside of quotes. @param {string} text */
function delimiterOf(text) {
  const line = (/^[^\r\n]*/.exec(text)?.[0] ?? '').replaceAll(/"[^"]*"/g, '')
  const counts = [',', ';', '\t'].map((mark) => ({ mark, count: line.split(mark).length }))
  return counts.reduce((most, one) => (one.count > most.count ? one : most)).mark
}

/** RFC 4180, with commas, semicolons or tabs. Throws an Error that names the line. @param {string} file @returns {Csv} */
export function parseCsv(file) {
  const text = file.replace(/^\uFEFF/, '')
  const delimiter = delimiterOf(text)
  /** @type {string[][]} */
  const lines = []
  let cells = /** @type {string[]} */ ([])
  let position = 0
  while (position < text.length) {
    let cell = ''
    if (text[position] === '"') {
      for (position += 1; ; position += 1) {
        const end = text.indexOf('"', position)
        if (end === -1) throw new Error(`line ${lines.length + 1}: a quote is not closed`)
        cell += text.slice(position, end)
        position = end + 1
        if (text[position] !== '"') break
        cell += '"'
      }
    }
    const rest = position
    while (
      position < text.length &&
      text[position] !== delimiter &&
      text[position] !== '\n' &&
      text[position] !== '\r'
    )
      position += 1
    cells.push((cell + text.slice(rest, position)).trim())
    if (text[position] === delimiter) {
      position += 1
      if (position === text.length) cells.push('')
      else continue
    }
    if (text[position] === '\r') position += 1
    if (text[position] === '\n') position += 1
    if (cells.some((text) => text !== '')) lines.push(cells)
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

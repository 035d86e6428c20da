/** Small damage to the bytes of a message, reproducible by its source of randomness. Texts are latin1. */
export type Random = () => number

export const below = (random: Random, count: number) => Math.floor(random() * count)
export const pick = <T>(random: Random, list: readonly T[]): T => list[below(random, list.length)]!

const odd = [
  '\r',
  '\n',
  '\r\n',
  '\r\n\r\n',
  '\0',
  ' ',
  '\t',
  ':',
  ';',
  ',',
  '"',
  '/',
  '\x7f',
  '\x80',
  '\xff',
  '0',
  '-',
]

type Mutation = (text: string, random: Random, lines: readonly string[]) => string

const splice = (text: string, start: number, removed: number, added: string) =>
  text.slice(0, start) + added + text.slice(start + removed)

/** Applies `change` to one line of the head. */
function onLine(text: string, random: Random, change: (line: string) => string): string {
  const end = text.indexOf('\r\n\r\n')
  const rows = text.slice(0, end < 0 ? text.length : end).split('\r\n')
  const row = below(random, rows.length)
  rows[row] = change(rows[row]!)
  return rows.join('\r\n') + (end < 0 ? '' : text.slice(end))
}

const mutations: readonly Mutation[] = [
  // A line of the dictionary, twice as often as the rest.
  (text, random, lines) => onLine(text, random, (line) => `${line}\r\n${pick(random, lines)}`),
  (text, random, lines) => onLine(text, random, (line) => `${line}\r\n${pick(random, lines)}`),
  (text, random, lines) => onLine(text, random, () => pick(random, lines)),
  (text, random) => onLine(text, random, (line) => `${line}\r\n${line}`),
  (text, random) => onLine(text, random, (line) => line + pick(random, odd)),
  (text, random) =>
    onLine(text, random, (line) => line.replace(':', pick(random, [' :', '', ': ', ':\t']))),
  (text, random) =>
    onLine(text, random, (line) => (random() < 0.5 ? line.toUpperCase() : line.toLowerCase())),
  (text, random) =>
    onLine(text, random, (line) =>
      line.replace(/\d+/, (digits) =>
        pick(random, [
          '0',
          `0${digits}`,
          `+${digits}`,
          `${digits}${digits}`,
          String(Number(digits) + 1),
          String(Math.max(0, Number(digits) - 1)),
        ]),
      ),
    ),
  (text, random) => splice(text, below(random, text.length), 0, pick(random, odd)),
  (text, random) => splice(text, below(random, text.length), 1, pick(random, odd)),
  (text, random) => splice(text, below(random, text.length), 1 + below(random, 4), ''),
  (text, random) => text.slice(0, below(random, text.length)),
  (text, random) => text + pick(random, odd),
]

/** One to three mutations; `lines`: header lines worth adding. */
export function mutated(text: string, random: Random, lines: readonly string[]): string {
  let result = text
  for (let count = 1 + below(random, 3); count > 0; count--)
    result = pick(random, mutations)(result, random, lines)
  return result
}

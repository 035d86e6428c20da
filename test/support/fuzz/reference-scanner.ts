/** Reads documents that JSON.parse accepts as opd/json/scanner.ts does, the obvious way. */
import type { Body, KeyTable, Leaf, Read, Scanner } from '../../../opd/json/scanner.ts'
import { parses } from '../json-bytes.ts'

const token = /[ \t\n\r]*([{}[\],:]|"[^"\\]*(?:\\.[^"\\]*)*"|[^ \t\n\r{}[\],:"]+)/y
const macros = ['CONTEXT', 'IN_BID_PRICE', 'OUT_BID_PRICE', 'MODE']
const maxDepth = 1000

function tokenAt(text: string, start: number): { token: string; from: number; to: number } {
  token.lastIndex = start
  const found = token.exec(text)![1]!
  return { token: found, from: token.lastIndex - found.length, to: token.lastIndex }
}

function* tokens(text: string, start: number) {
  let depth = 0
  for (let next = tokenAt(text, start); ; next = tokenAt(text, next.to)) {
    if (next.token === '{' || next.token === '[') depth++
    if (next.token === '}' || next.token === ']') depth--
    yield { ...next, depth }
    if (depth === 0) return
  }
}

/** Of the value that begins at `at`. */
function endOf(text: string, start: number): number {
  let end = start
  for (const { to } of tokens(text, start)) end = to
  return end
}

/** Bounds of the keys and values of an object, or the elements of an array. */
function partsOf(text: string, start: number): [from: number, to: number][] {
  const parts: [number, number][] = []
  let opened: number | null = null
  for (const { token, from, to, depth } of tokens(text, start)) {
    if (depth === 2 && opened === null) opened = from
    else if (depth === 1 && opened !== null) {
      parts.push([opened, to])
      opened = null
    } else if (depth === 1 && !'[{,:'.includes(token)) parts.push([from, to])
  }
  return parts
}

const parsed = (text: string, from: number, to: number) =>
  JSON.parse(Buffer.from(text.slice(from, to), 'latin1').toString())

class ReferenceScanner {
  readonly text: string
  readonly asciiEscapes: boolean
  start: number
  end: number

  constructor(text: string) {
    this.text = text
    this.asciiEscapes = text.includes('\\u00')
    this.start = tokenAt(text, 0).from
    this.end = endOf(text, this.start)
  }

  get source() {
    return this.text.slice(this.start, this.end)
  }
  get isObject() {
    return this.text[this.start] === '{'
  }
  get isArray() {
    return this.text[this.start] === '['
  }
  get isString() {
    return this.text[this.start] === '"'
  }
  get isNumber() {
    return /[-\d]/.test(this.text[this.start]!)
  }
  steps = 0
  get isNull() {
    return this.source === 'null'
  }

  literals() {
    const positions: number[] = []
    const numbers: number[] = []
    for (const { index, 1: name } of this.text.matchAll(/\$\{SVC_OPD_([A-Z_]+)\}/g)) {
      if (!macros.includes(name!)) continue
      positions.push(index)
      numbers.push(macros.indexOf(name!) + 1)
    }
    return { positions, numbers }
  }

  leaf(): Leaf {
    return this.isObject || this.isArray ? undefined : parsed(this.text, this.start, this.end)
  }

  object<T>(table: KeyTable<T>, into: T): void {
    if (!this.isObject) return
    const parts = partsOf(this.text, this.start)
    const seen = new Set<string>()
    for (let index = 0; index < parts.length; index += 2) {
      const key = parsed(this.text, ...parts[index]!)
      const member = table.keys.indexOf(key)
      if (member === -1) continue
      if (seen.has(key)) table.repeated?.(into, key)
      seen.add(key)
      this.read(table.reads[member]!, parts[index + 1]!, into)
    }
  }

  array<T>(element: Read<T>, into: T): void {
    if (!this.isArray) return
    for (const part of partsOf(this.text, this.start)) this.read(element, part, into)
  }

  private read<T>(read: Read<T>, [from, to]: [number, number], into: T): void {
    const { start, end } = this
    this.start = from
    this.end = to
    read(this as unknown as Scanner, into)
    this.start = start
    this.end = end
  }
}

/** null: not JSON in UTF-8, or nested deeper than 1,000. */
export function referenceScanner(body: Body): Scanner | null {
  const bytes = typeof body === 'string' ? Buffer.from(body, 'latin1') : body
  if (!parses(bytes)) return null
  const text = bytes.toString('latin1')
  const start = tokenAt(text, 0).from
  for (const { depth } of tokens(text, start)) if (depth > maxDepth) return null
  return new ReferenceScanner(text) as unknown as Scanner
}

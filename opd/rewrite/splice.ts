/** Replaces byte ranges of a body. All other bytes are copied unchanged. */

/** Replaces the bytes from `start` up to, but not including, `end`. `text` is ASCII. */
export interface Splice {
  start: number
  end: number
  text: string
}

/** Length of a body after its splices. */
export function grownLength(body: Buffer, splices: readonly Splice[]): number {
  let { length } = body
  for (const { start, end, text } of splices) length += text.length - (end - start)
  return length
}

/** Applies splices, in any order. They must not overlap. */
export function splice(body: Buffer, splices: Splice[]): Buffer {
  splices.sort((one, other) => one.start - other.start)
  const out = Buffer.allocUnsafe(grownLength(body, splices))
  let read = 0
  let write = 0
  for (const { start, end, text } of splices) {
    write += body.copy(out, write, read, start)
    write += out.write(text, write, 'latin1')
    read = end
  }
  body.copy(out, write, read)
  return out
}

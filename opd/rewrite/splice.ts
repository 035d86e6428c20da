/** Bytes out, bytes in, all others as they were. */

/** Replaces the bytes from `start` to before `end`; `text` is ASCII. */
export interface Splice {
  start: number
  end: number
  text: string
}

/** How long a body is after its splices. */
export function grownLength(body: Buffer, splices: readonly Splice[]): number {
  let { length } = body
  for (const { start, end, text } of splices) length += text.length - (end - start)
  return length
}

/** Applies splices that do not overlap; their order does not matter. */
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

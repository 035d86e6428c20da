/** Replaces byte ranges of a body. All other bytes stay as they are. */

/** Replaces the bytes from `start` up to, but not including, `end`. `text` is ASCII. */
export interface Splice {
  start: number
  end: number
  text: string
}

/** Length of a body after its splices. */
export function grownLength(length: number, splices: readonly Splice[]): number {
  for (const { start, end, text } of splices) length += text.length - (end - start)
  return length
}

/** Applies splices, in any order. They must not overlap. `body` is latin1, so that a character is a byte. */
export function splice(body: string, splices: Splice[]): string {
  sort(splices)
  let out = ''
  let read = 0
  for (const { start, end, text } of splices) {
    out += body.slice(read, start) + text
    read = end
  }
  return out + body.slice(read)
}

/** Most splices are in order: a bid has its fields in one of a few orders, and bids follow each other. */
function sort(splices: Splice[]): void {
  for (let at = 1; at < splices.length; at++)
    if (splices[at]!.start < splices[at - 1]!.start) {
      splices.sort((one, other) => one.start - other.start)
      return
    }
}

/** Replaces byte ranges of a body. All other bytes are copied unchanged. */

/** Replacements of ranges that do not overlap. Columns instead of objects: a response of 200 bids has 2,000. */
export class Splices {
  private readonly starts: number[] = []
  private readonly ends: number[] = []
  private readonly texts: string[] = []
  private isSorted = true
  /** Bytes by which the body grows. */
  growth = 0

  get count(): number {
    return this.starts.length
  }

  /** Replaces the bytes from `start` up to, but not including, `end`. `text` is ASCII. */
  add(start: number, end: number, text: string): void {
    const { starts, ends, texts } = this
    if (starts.length > 0 && start < starts[starts.length - 1]!) this.isSorted = false
    starts.push(start)
    ends.push(end)
    texts.push(text)
    this.growth += text.length - (end - start)
  }

  /** The body, given as latin1 text, with its replacements. */
  applyTo(body: string): string {
    const { starts, ends, texts } = this
    const order = this.isSorted ? null : this.order()
    let out = ''
    let read = 0
    for (let n = 0; n < starts.length; n++) {
      const at = order === null ? n : order[n]!
      out += body.slice(read, starts[at])
      out += texts[at]
      read = ends[at]!
    }
    return out + body.slice(read)
  }

  private order(): number[] {
    const { starts } = this
    return Array.from(starts.keys()).sort((one, other) => starts[one]! - starts[other]!)
  }
}

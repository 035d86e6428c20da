/** Replaces byte ranges of a body. All other bytes are copied unchanged. */

/** Replacements of ranges that do not overlap, in ascending order. Columns instead of objects: a response of 200 bids has 2,000. */
export class Splices {
  private readonly starts: number[] = []
  private readonly ends: number[] = []
  private readonly texts: string[] = []
  /** Bytes by which the body grows. */
  growth = 0

  get count(): number {
    return this.starts.length
  }

  /**
   * Replaces the bytes from `start` up to, but not including, `end`. `text` is latin1: a character is a byte. Throws if the range
   * is before the last one. Returns its number, for `replaceText`.
   */
  addReplacement(start: number, end: number, text: string): number {
    const { starts, ends, texts } = this
    if (starts.length > 0 && start < ends[ends.length - 1]!)
      throw new RangeError('replacements are not in order')
    starts.push(start)
    ends.push(end)
    texts.push(text)
    this.growth += text.length - (end - start)
    return texts.length - 1
  }

  /** Another text for a range that was added, such as a length that depends on later replacements. */
  replaceText(number: number, text: string): void {
    const { texts } = this
    this.growth += text.length - texts[number]!.length
    texts[number] = text
  }

  /** The body, given as latin1 text, with its replacements. */
  applyTo(body: string): string {
    const { starts, ends, texts } = this
    let out = ''
    let read = 0
    for (let n = 0; n < starts.length; n++) {
      out += body.slice(read, starts[n])
      out += texts[n]
      read = ends[n]!
    }
    return out + body.slice(read)
  }

  /** The same for a long body, in slices. */
  slicesOf(body: Buffer): SplicedBody {
    return new SplicedBody(body, this.starts, this.ends, this.texts, this.growth)
  }
}

/** Replacements, and bytes, that are copied in one slice. */
const splicesPerSlice = 2000
const bytesPerSlice = 1024 * 1024

export class SplicedBody {
  readonly bytes: Buffer
  private readonly body: Buffer
  private readonly starts: readonly number[]
  private readonly ends: readonly number[]
  private readonly texts: readonly string[]
  private next = 0
  private read = 0
  private written = 0

  constructor(
    body: Buffer,
    starts: readonly number[],
    ends: readonly number[],
    texts: readonly string[],
    growth: number,
  ) {
    this.body = body
    this.starts = starts
    this.ends = ends
    this.texts = texts
    this.bytes = Buffer.allocUnsafeSlow(body.length + growth)
  }

  /** Copies the next slice. True: `bytes` is complete. */
  copy(): boolean {
    const { starts, ends, texts, body } = this
    const until = this.written + bytesPerSlice
    for (const last = this.next + splicesPerSlice; this.next < last; ) {
      const isEnd = this.next === starts.length
      const to = isEnd ? body.length : starts[this.next]!
      const part = Math.min(to, this.read + until - this.written)
      this.written += body.copy(this.bytes, this.written, this.read, part)
      this.read = part
      if (part < to || this.written >= until) return false
      if (isEnd) return true
      this.written += this.bytes.write(texts[this.next]!, this.written, 'latin1')
      this.read = ends[this.next]!
      this.next++
    }
    return false
  }
}

/**
 * Heads seen last on one connection, or from one endpoint. The same peer sends the same head again and again, but for the
 * digits of its Content-Length: such a head is recognized by comparison, and what was made of it is used again. Only heads
 * that the parser of the fast lane has accepted become templates, and all other bytes must be equal.
 */
interface Template<T> {
  /** The head up to the digits of its Content-Length; the whole head if its length does not vary. */
  before: string
  /** The rest of the head, up to and including its blank line; null: the length does not vary. */
  after: string | null
  value: T
}

/** The head of a request begins with its fields: its first line is compared by itself. */
const lengthField = /(?:^|\r\n)content-length:[ \t]*(\d{1,15})(?=[ \t]*\r\n)/i
const blankLine = '\r\n'
/** Characters of a head that is kept, at most. */
const longest = 4096
/** Misses in a row after which the peer is taken for one whose heads differ (a trace id, for example). */
const maxMisses = 8
/** Heads that are then neither compared nor kept. */
const pause = 1000
/** Heads that are shared, at most; then they are forgotten, and shared anew. */
const mostShared = 1024
/** The newest of them, with which a head that a peer has not sent before is compared. */
const newestShared = 8

/**
 * Templates of many peers. Suppliers whose servers are the same send the same head: it is kept once, so that for each of
 * thousands of suppliers less has to be read from memory, and the head of a new second, with another `Date`, is read once.
 */
export class SharedTemplates<T> {
  private readonly known = new Map<string, Template<T>>()
  /** The newest is first. */
  readonly newest: Template<T>[] = []

  /** The template that another peer has for the same head, or this one. */
  shared(template: Template<T>): Template<T> {
    const { known } = this
    // A head has no NUL.
    const key = `${template.before}\0${template.after}`
    const equal = known.get(key)
    if (equal !== undefined) return equal
    if (known.size === mostShared) known.clear()
    known.set(key, template)
    this.newest.unshift(template)
    if (this.newest.length > newestShared) this.newest.pop()
    return template
  }
}

export class HeadTemplates<T> {
  /** After a match: the position of the body, and the value of Content-Length; -1: it is that of the template. */
  end = 0
  length = -1
  /** Characters that a head of the templates may have, from where it is compared. */
  reach = 0
  /** The one that matched last. */
  private latest: Template<T> | null = null
  /** The others. The one that matched last of them is first. */
  private readonly earlier: Template<T>[] = []
  private readonly size: number
  private readonly others: SharedTemplates<T> | null
  private misses = 0
  private paused = 0

  /**
   * @param size heads that are kept
   * @param others of which values may be used for heads of this peer; null: only its own are
   */
  constructor(size: number, others: SharedTemplates<T> | null = null) {
    this.size = size
    this.others = others
  }

  /**
   * What was kept of a head; null: it is not one of the templates. After a match `end` and `length` are those of this head.
   *
   * @param text latin1, at least `reach` characters of what arrived from `from` on, if there are so many
   * @param from the position of the head
   */
  match(text: string, from = 0): T | null {
    if (this.paused > 0) return null
    const { latest } = this
    if (latest !== null && this.fits(text, from, latest)) {
      this.misses = 0
      return latest.value
    }
    const { earlier } = this
    for (let index = 0; index < earlier.length; index++) {
      const template = earlier[index]!
      if (!this.fits(text, from, template)) continue
      this.misses = 0
      this.moveToFront(index)
      return template.value
    }
    return this.others === null ? null : this.adopt(text, from, this.others)
  }

  /** Keeps a head that others have sent. */
  private adopt(text: string, from: number, { newest }: SharedTemplates<T>): T | null {
    for (let index = 0; index < newest.length; index++) {
      const template = newest[index]!
      if (!this.fits(text, from, template)) continue
      this.misses = 0
      this.put(template)
      return template.value
    }
    return null
  }

  private put(template: Template<T>): void {
    const { earlier, latest } = this
    this.latest = template
    if (latest === null) return
    earlier.unshift(latest)
    if (earlier.length === this.size) earlier.pop()
  }

  private moveToFront(from: number): void {
    const { earlier } = this
    const template = earlier[from]!
    for (let index = from; index > 0; index--) earlier[index] = earlier[index - 1]!
    earlier[0] = this.latest!
    this.latest = template
  }

  private fits(text: string, from: number, { before, after }: Template<T>): boolean {
    const digitsAt = from + before.length
    // Twice as fast as startsWith.
    if (text.slice(from, digitsAt) !== before) return false
    let offset = digitsAt
    this.end = offset
    this.length = -1
    if (after === null) return true
    let length = 0
    for (
      let code = text.charCodeAt(offset);
      code >= 48 && code <= 57;
      code = text.charCodeAt(++offset)
    )
      length = length * 10 + code - 48
    const digits = offset - digitsAt
    const end = offset + after.length
    if (digits === 0 || digits > 15 || text.slice(offset, end) !== after) return false
    this.end = end
    this.length = length
    return true
  }

  /**
   * Keeps a head that did not match.
   *
   * @param head its text without the blank line, as accepted by the parser of the fast lane
   * @param value what `match` returns for it
   * @param varies `value` is also right for any other Content-Length
   */
  keep(head: string, value: T, varies: boolean): void {
    if (this.paused > 0) return void this.paused--
    if (++this.misses > maxMisses) {
      this.misses = 0
      this.paused = pause
      this.latest = null
      this.earlier.length = 0
      return
    }
    if (head.length > longest) return
    const made = template(head, value, varies)
    this.put(this.others === null ? made : this.others.shared(made))
    this.reach = Math.max(this.reach, head.length + blankLine.length + 15)
  }
}

function template<T>(head: string, value: T, varies: boolean): Template<T> {
  const field = varies ? lengthField.exec(head) : null
  if (field === null) return { before: head + blankLine, after: null, value }
  const to = field.index + field[0].length
  const after = head.slice(to) + blankLine
  return { before: head.slice(0, to - field[1]!.length), after, value }
}

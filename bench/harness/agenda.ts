/** Entries by their time, the earliest first; those of the same time in the order in which they were added. A binary heap. */
interface Entry<T> {
  time: number
  serial: number
  what: T
}

const before = <T>(one: Entry<T>, other: Entry<T>) =>
  one.time < other.time || (one.time === other.time && one.serial < other.serial)

export class Agenda<T> {
  private readonly heap: Entry<T>[] = []
  private added = 0

  /** The time of the next entry. */
  get next(): number {
    return this.heap[0]?.time ?? Number.POSITIVE_INFINITY
  }

  addEntry(time: number, what: T): void {
    const { heap } = this
    const entry = { time, serial: this.added++, what }
    let place = heap.length
    for (let parent = (place - 1) >> 1; place > 0; parent = (place - 1) >> 1) {
      if (before(heap[parent]!, entry)) break
      heap[place] = heap[parent]!
      place = parent
    }
    heap[place] = entry
  }

  /** Removes the next entry. */
  takeEntry(): T {
    const { heap } = this
    const first = heap[0]!
    const last = heap.pop()!
    if (heap.length === 0) return first.what
    let place = 0
    for (let child = 1; child < heap.length; child = 2 * place + 1) {
      if (child + 1 < heap.length && before(heap[child + 1]!, heap[child]!)) child++
      if (before(last, heap[child]!)) break
      heap[place] = heap[child]!
      place = child
    }
    heap[place] = last
    return first.what
  }
}

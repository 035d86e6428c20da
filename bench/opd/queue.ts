/** Notices on their way: a binary heap by the time they are due. */
interface Notice {
  due: number
  features: Uint8Array
  /** 0: a loss notice. */
  cleared: number
  /** The lowest price that would have won, where the notice says it. */
  least?: number
  /** Whose learner the bid was, and a bid's number. */
  node: number
}

export class Queue {
  private readonly heap: Notice[] = []

  get length(): number {
    return this.heap.length
  }

  /** When the next is due. */
  get next(): number {
    return this.heap[0]?.due ?? Number.POSITIVE_INFINITY
  }

  push(notice: Notice): void {
    const { heap } = this
    let at = heap.length
    heap.push(notice)
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (heap[parent]!.due <= notice.due) break
      heap[at] = heap[parent]!
      at = parent
    }
    heap[at] = notice
  }

  pop(): Notice {
    const { heap } = this
    const first = heap[0]!
    const last = heap.pop()!
    if (heap.length === 0) return first
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && heap[child + 1]!.due < heap[child]!.due) child++
      if (heap[child]!.due >= last.due) break
      heap[at] = heap[child]!
      at = child
    }
    heap[at] = last
    return first
  }
}

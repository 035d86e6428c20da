/**
 * Long responses: those that are decoded off the event loop, or rewritten in slices. A response of 4 KB may decode to 4 MiB
 * and become a hundred times that in objects, so few are worked on at once, and their memory is reserved before the work.
 */
import type { WorkMemory } from '../../opd/json/work-memory.ts'
import type { Budget } from '../admission/overload.ts'

/** Responses that are worked on at once, and that wait. */
const maxRunning = 4
const maxWaiting = 256

export interface MemoryLimits {
  maxHeldBytes: number
}

/** Bytes that responses may bring the budget to: a quarter of it is left for requests. */
export const responseShare = ({ maxHeldBytes }: MemoryLimits): number => maxHeldBytes * 0.75

/** Bytes of the index of long documents, which is kept. */
const indexShare = ({ maxHeldBytes }: MemoryLimits): number => maxHeldBytes / 4

/** Bounds the long responses that are rewritten at a time. */
export class LongResponses {
  running = 0
  waiting = 0
  /** By supplier: the responses of one do not wait for all those of another. */
  private readonly queues = new Map<string, (() => void)[]>()

  /** Null: the work may begin; else a promise of that. `full`: too many wait. */
  enter(supplier: string): Promise<void> | null | 'full' {
    if (this.running < maxRunning) {
      this.running++
      return null
    }
    if (this.waiting === maxWaiting) return 'full'
    this.waiting++
    return new Promise((resolve) => {
      const queue = this.queues.get(supplier)
      if (queue === undefined) this.queues.set(supplier, [resolve])
      else queue.push(resolve)
    })
  }

  /** The work has ended. The next one is the oldest of the supplier that has waited longest for its turn. */
  leave(): void {
    for (const [supplier, queue] of this.queues) {
      this.queues.delete(supplier)
      const next = queue.shift()!
      if (queue.length > 0) this.queues.set(supplier, queue)
      this.waiting--
      return next()
    }
    this.running--
  }
}

/** The memory of the work on one response, besides its bytes as received. */
export class ResponseMemory implements WorkMemory {
  private reserved = 0
  private readonly budget: Budget
  private readonly limits: MemoryLimits

  constructor(budget: Budget, limits: MemoryLimits) {
    this.budget = budget
    this.limits = limits
  }

  reserve(bytes: number): boolean {
    if (this.budget.bytes + bytes > responseShare(this.limits)) return false
    this.budget.bytes += bytes
    this.reserved += bytes
    return true
  }

  keep(bytes: number): boolean {
    const { budget, limits } = this
    const fits =
      budget.kept + bytes <= indexShare(limits) && budget.bytes + bytes <= responseShare(limits)
    if (!fits) return false
    budget.bytes += bytes
    budget.kept += bytes
    return true
  }

  /** Gives back a part of what was reserved. */
  free(bytes: number): void {
    this.budget.bytes -= bytes
    this.reserved -= bytes
  }

  release(): void {
    if (this.reserved > 0) this.free(this.reserved)
  }
}

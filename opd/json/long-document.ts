/**
 * Reads long JSON documents in slices, one document at a time: their index is the only one that is long. A response and the
 * request that belongs to it are read one after the other by the same holder.
 */

import { DocumentIndex, type Windows } from './document-index.ts'
import { Scanner } from './scanner.ts'
import { ReadMemory, type WorkMemory } from './work-memory.ts'

const index = new DocumentIndex()
const waiting: (() => void)[] = []
let held = false

/** Windows of 64 KiB that are indexed in one slice. */
const windowsPerSlice = 4
/** Members and elements that are read in one slice. */
const stepsPerSlice = 5000

/** The right to use the long index. */
export class LongTurn {
  private state: 'outside' | 'waiting' | 'holding' = 'outside'

  /** null: the caller has the turn; else a promise of it. */
  enter(): Promise<void> | null {
    if (this.state === 'holding') return null
    if (!held) {
      held = true
      this.state = 'holding'
      return null
    }
    this.state = 'waiting'
    return new Promise((resolve) =>
      waiting.push(() => {
        // It was left while it waited.
        if (this.state === 'outside') passOn()
        else this.state = 'holding'
        resolve()
      }),
    )
  }

  leave(): void {
    if (this.state === 'holding') passOn()
    this.state = 'outside'
  }
}

function passOn(): void {
  const next = waiting.shift()
  if (next === undefined) held = false
  else next()
}

/** One document. Call `next` until it returns another value than `more`. */
export class LongDocument {
  /** The scanner of the document, once it is indexed. */
  scan: Scanner | null = null
  private readonly body: Buffer
  private readonly memory: ReadMemory
  private readonly windows: Windows

  /** The caller has the turn, until it has read the document. */
  constructor(body: Buffer, memory: WorkMemory) {
    this.body = body
    this.memory = new ReadMemory(memory)
    this.windows = index.windows(body, (bytes) => memory.keep(bytes))
  }

  /** Indexes the next windows. */
  index(): 'more' | 'complete' | 'malformed' | 'too_large' {
    for (let count = 0; count < windowsPerSlice; count++) {
      const state = this.windows.next()
      if (state === 'more') continue
      if (state === 'complete') this.scan = new Scanner(this.body, index, this.windows)
      return state
    }
    return 'more'
  }

  /** Reads the elements of arrays that follow, after `read` was called with the scanner. */
  read(): 'more' | 'complete' | 'too_large' {
    const scan = this.scan!
    if (!this.memory.reserveFor(scan.steps + stepsPerSlice)) return 'too_large'
    return scan.readLists(stepsPerSlice) ? 'complete' : 'more'
  }
}

/** The memory of the node that the work on one long document may take. Who counts it gives it back when the work has ended. */
export interface WorkMemory {
  /**
   * Counts memory for the time of the work. False: there is none, and nothing is counted.
   *
   * @param bytes in addition to those that were reserved before
   */
  reserve(bytes: number): boolean
  /**
   * The same for memory that stays in use after the work.
   *
   * @param bytes in addition to those that were kept before
   */
  keep(bytes: number): boolean
}

/** For bodies whose size is limited elsewhere. */
export const unlimitedMemory: WorkMemory = { reserve: () => true, keep: () => true }

/** Reserved at once. */
const part = 512 * 1024
/** Bytes of what is made of one member of a document, or in one step of a message. */
const bytesPerStep = 48

/** The memory of what is made of a document while it is read. */
export class ReadMemory {
  private reserved = 0
  private readonly memory: WorkMemory

  constructor(memory: WorkMemory) {
    this.memory = memory
  }

  /**
   * Reserves what is missing. False: there is no memory for it.
   *
   * @param steps from the start of the document on: what was reserved for earlier ones is part of it
   */
  reserveFor(steps: number): boolean {
    while (this.reserved < steps * bytesPerStep + part) {
      if (!this.memory.reserve(part)) return false
      this.reserved += part
    }
    return true
  }
}

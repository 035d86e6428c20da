/** The memory of the node that the work on one long document may take. Who counts it gives it back when the work has ended. */
export interface WorkMemory {
  /** False: there is no memory for so many bytes, and none are counted. */
  reserve(bytes: number): boolean
  /** The same for bytes that stay in use after the work. */
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

  /** Reserves what is missing for so many steps from the start of the document on. False: there is no memory for them. */
  reserveFor(steps: number): boolean {
    while (this.reserved < steps * bytesPerStep + part) {
      if (!this.memory.reserve(part)) return false
      this.reserved += part
    }
    return true
  }
}

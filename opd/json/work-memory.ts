/** The memory of the node that the work on one long document may take. Who counts it gives it back when the work has ended. */
export interface WorkMemory {
  /** False: there is no memory for so many bytes, and none are counted. */
  reserve(bytes: number): boolean
  /** The same for bytes that stay in use after the work. */
  keep(bytes: number): boolean
}

export const unlimitedMemory: WorkMemory = { reserve: () => true, keep: () => true }

/** Long work in slices, so that bid traffic runs in between. */

/** Milliseconds that a slice takes, about. */
const budget = 1

export interface Slices {
  /** To be awaited between two pieces of work; gives way to the event loop when the slice is over. */
  next(): Promise<void> | undefined
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

export function createSlices(now = () => performance.now(), giveWay = turn): Slices {
  let began = now()
  return {
    next() {
      if (now() - began < budget) return undefined
      return giveWay().then(() => {
        began = now()
      })
    },
  }
}

/** Work by key, one after the other within a key, side by side between keys. */
export class Turns {
  private readonly last = new Map<string, Promise<unknown>>()
  pending = 0

  async next<T>(key: string, work: () => Promise<T>): Promise<T> {
    this.pending++
    const before = this.last.get(key)
    // whatever became of the one before, this one has its turn
    const mine = before === undefined ? work() : before.then(work, work)
    this.last.set(key, mine)
    try {
      return await mine
    } finally {
      this.pending--
      if (this.last.get(key) === mine) this.last.delete(key)
    }
  }
}

/** Deadlines on one timer: each is due once, none early, none that was removed, and in their order. */
import t from 'tap'
import { DeadlineWheel, WheelEntry } from '../../proxy/exchange/deadline-wheel.ts'
import { source } from '../support/random.ts'

class Entry extends WheelEntry {
  due = 0
  private readonly called: (entry: Entry) => void

  constructor(called: (entry: Entry) => void) {
    super()
    this.called = called
  }

  override onDue(): void {
    this.called(this)
  }
}

t.test('deadlines of more than one turn of the wheel', async (t) => {
  // The wheel's own timer does not keep the process alive.
  const alive = setInterval(() => {}, 1000)
  const wheel = new DeadlineWheel()
  const random = source(3)
  const called: Entry[] = []
  const early: number[] = []
  const kept = new Set<Entry>()
  const dropped = new Set<Entry>()
  await new Promise<void>((resolve) => {
    const onDue = (entry: Entry) => {
      if (performance.now() < entry.due) early.push(entry.due)
      called.push(entry)
      // One that is set again while others are due.
      if (called.length === 5) set(new Entry(onDue), 20)
      if (called.length === kept.size) resolve()
    }
    const set = (entry: Entry, after: number) => {
      entry.due = performance.now() + after
      wheel.set(entry, entry.due)
      kept.add(entry)
    }
    for (let count = 0; count < 3000; count++) {
      const entry = new Entry(onDue)
      set(entry, random() * 2500 - 5)
      if (count % 5 === 0) set(entry, random() * 2500)
      if (count % 3 !== 0) continue
      entry.remove()
      kept.delete(entry)
      dropped.add(entry)
    }
  })
  clearInterval(alive)
  t.equal(new Set(called).size, called.length, 'each once')
  t.same(early, [])
  t.notOk(called.some((entry) => dropped.has(entry)))
  t.same(
    called.map(({ at }) => at),
    called.map(({ at }) => at).sort((one, other) => one - other),
  )
})

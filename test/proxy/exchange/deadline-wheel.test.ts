/** Deadlines on one timer: each is due once, none early, none that was removed, and in their order. */
import t from 'tap'
import { DeadlineWheel, WheelEntry } from '../../../proxy/exchange/deadline.ts'
import { source } from '../../support/random.ts'

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

// The first test: Node.js warns once in a process.
t.test('a deadline that has passed is due at once, without a warning of Node.js', async (t) => {
  const warnings: Error[] = []
  const onWarning = (warning: Error) => warnings.push(warning)
  process.on('warning', onWarning)
  t.teardown(() => process.off('warning', onWarning))
  const wheel = new DeadlineWheel()
  // Node.js does not update the time of its timers meanwhile.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20)
  await new Promise<void>((resolve) => {
    const alive = setInterval(() => {}, 1000)
    const entry = new Entry(() => {
      clearInterval(alive)
      resolve()
    })
    wheel.set(entry, performance.now() - 10)
  })
  t.same(warnings, [])
})

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
    called.map(({ dueAt }) => dueAt),
    called.map(({ dueAt }) => dueAt).sort((one, other) => one - other),
  )
})

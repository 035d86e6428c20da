/** The adaptive limit and the queue before a supplier, in simulated time (CONTRACT 3, overload). */
import t from 'tap'
import {
  goodput,
  independentFamilies,
  loadedFamilies,
  multiples,
} from '../../../bench/overload/families.ts'
import { bimodal, lognormal, overload } from '../../../bench/overload/simulated.ts'
import { type Request, type Scenario, simulate } from '../../../bench/overload/simulation.ts'
import { Gate } from '../../../proxy/admission/gate.ts'

const steady = (scenario: Partial<Scenario> & { rate: number; takes: number }): Scenario => ({
  ...{ slots: 4, cancels: true, deadline: 500, lasts: 6000 },
  ...{ service: () => scenario.takes, arrivals: () => scenario.rate },
  ...scenario,
})

const count = (requests: readonly Request[], outcome: Request['outcome']) =>
  requests.filter((request) => request.outcome === outcome).length

t.test('past its capacity a supplier answers in time what it can, from a cold start', (t) => {
  const suppliers = [
    { slots: 4, mean: 100, deadline: 500 },
    { slots: 10, mean: 50, deadline: 300 },
    { slots: 10, mean: 20, deadline: 120 },
  ]
  for (const supplier of suppliers)
    for (const sigma of [0, 0.5])
      for (const cancels of [true, false])
        for (const [times, goal] of [
          [2, 0.99],
          [5, 0.95],
          [10, 0.9],
        ] as const) {
          const scenario = { ...supplier, sigma, cancels }
          const name = `${supplier.slots} x ${supplier.mean} ms, sigma ${sigma}, ${times}x, ${cancels ? 'cancels' : 'ignores aborts'}`
          // What is given up keeps the slots of a supplier that ignores aborts, more of them where the latency varies.
          const reached = cancels || sigma === 0 ? goal : goal - 0.01
          const adaptive = overload(scenario, times, 1).goodput
          t.ok(adaptive >= reached, `${name}: ${(100 * adaptive).toFixed(1)} %`)
          const fixed = overload(scenario, times, 1, supplier.slots).goodput
          t.ok(fixed >= 0.99, `${name}, maxInFlight: ${(100 * fixed).toFixed(1)} %`)
        }
  t.end()
})

t.test('what is refused is refused at once, save while the capacity is being found', (t) => {
  for (const maxInFlight of [undefined, 10]) {
    const scenario = { slots: 10, takes: 50, deadline: 300, rate: 1000 }
    const { requests } = simulate(steady({ ...scenario, ...(maxInFlight && { maxInFlight }) }))
    const refused = requests.filter(({ outcome }) => outcome === 'refused')
    const waited = refused.filter(({ arrived, ended }) => arrived > 1000 && ended - arrived > 50)
    t.ok(refused.length > 3000)
    t.ok(waited.length <= refused.length * 0.02, `${waited.length} of ${refused.length} waited`)
  }
  t.end()
})

t.test('below its capacity nothing is refused, from the first request on', (t) => {
  const suppliers: (Partial<Scenario> & { rate: number; takes: number; mostRefused?: number })[] = [
    { slots: 4, takes: 100, rate: 36 },
    { slots: 10, takes: 50, rate: 190, deadline: 300 },
    { slots: 60, takes: 20, rate: 2900, deadline: 120 },
    { slots: 20, takes: 2, rate: 5000, deadline: 120 },
    { slots: 1, takes: 20, rate: 1, deadline: 120, lasts: 60_000 },
    { slots: 100, takes: 100, rate: 500 },
    // What cannot wait is refused until the first answers come.
    { slots: 100, takes: 100, rate: 500, deadline: 120, mostRefused: 250 },
    { slots: 20, takes: 60, rate: 260, deadline: 120, service: lognormal(60, 0.4, 1) },
    { slots: 200, takes: 100, rate: 500, service: lognormal(100, 0.5, 1) },
    { slots: 200, takes: 13, rate: 2000, deadline: 120, service: bimodal(5, 80, 0.9, 1) },
  ]
  for (const supplier of suppliers) {
    const { requests } = simulate(steady(supplier))
    const name = `${supplier.rate}/s of ${supplier.slots} slots, ${supplier.takes} ms`
    const refused = count(requests, 'refused')
    t.ok(refused <= (supplier.mostRefused ?? 0), `${name}: ${refused} refused`)
  }
  t.end()
})

t.test(
  'many callers at once at a supplier without a limit: none is refused after a second',
  (t) => {
    const scenario = { slots: 1e6, takes: 100, rate: 0, callers: 2000, lasts: 3000 }
    for (const [deadline, most] of [
      [500, 2200],
      [1000, 0],
    ] as const) {
      const { requests } = simulate(steady({ ...scenario, deadline }))
      const refused = count(requests, 'refused')
      t.ok(refused <= most, `${refused} of ${requests.length}`)
      const later = requests.filter(({ arrived }) => arrived > 1000)
      t.equal(count(later, 'good'), later.length)
    }
    t.end()
  },
)

t.test('a burst that can be answered in time is', (t) => {
  const cold = (time: number) => (time >= 1000 && time < 1001 ? 300_000 : 0)
  const atOnce = simulate(steady({ slots: 1e6, takes: 100, rate: 0, arrivals: cold })).requests
  t.ok(atOnce.length >= 300)
  t.equal(count(atOnce, 'good'), atOnce.length)
  for (const lasts of [30, 40]) {
    const arrivals = (time: number) => (time > 3001 && time < 3001 + lasts ? 7000 : 50)
    const scenario = { slots: 60, takes: 20, deadline: 120, rate: 50, arrivals }
    const { requests } = simulate(steady(scenario))
    t.ok(requests.length > 350)
    t.equal(count(requests, 'refused'), 0)
  }
  t.end()
})

t.test('idle minutes leave the limit what it was', (t) => {
  const arrivals = (time: number) => {
    if (time < 2000) return 3000
    return time < 180_000 ? 2 : 3000
  }
  const scenario = { slots: 1e6, takes: 100, rate: 0, arrivals, lasts: 180_100 }
  const { requests } = simulate(steady(scenario))
  t.equal(count(requests, 'good'), requests.length)
  t.end()
})

t.test('a restart of a supplier and a pause of our own do no lasting harm', (t) => {
  for (const { takes, deadline } of [
    { takes: 20, deadline: 120 },
    { takes: 50, deadline: 300 },
    { takes: 100, deadline: 500 },
  ]) {
    const scenario = { slots: 200, takes, deadline, rate: 500 }
    const down = (time: number) => time > 3000 && time < 4000
    const restart = simulate(steady({ ...scenario, down })).requests
    t.equal(count(restart, 'refused'), 0)
    const pausedUntil = (time: number) => (time > 3000 && time < 3200 ? 3200 : time)
    const paused = simulate(steady({ ...scenario, pausedUntil })).requests
    const later = paused.filter(({ arrived }) => arrived > 3200 + 250)
    t.equal(count(later, 'good'), later.length)
  }
  t.end()
})

t.test('a slow phase that ends before the deadline costs nothing', (t) => {
  const service = (time: number) => (time > 3000 && time < 3050 ? 60 : 5)
  const { requests } = simulate(steady({ slots: 20, takes: 5, deadline: 120, rate: 1000, service }))
  t.equal(count(requests, 'good'), requests.length)
  t.end()
})

t.test('after an overload, and after a supplier that hung, all is answered within 250 ms', (t) => {
  const ends = 3000
  const after = ({ requests }: { requests: Request[] }) =>
    requests.filter(({ arrived }) => arrived > ends + 250)
  for (const cancels of [true, false]) {
    const arrivals = (time: number) => (time < ends ? 400 : 20)
    const overload = after(simulate(steady({ takes: 100, rate: 0, arrivals, cancels })))
    t.equal(count(overload, 'good'), overload.length)
  }
  const service = (time: number) => (time > 2000 && time < ends ? Number.POSITIVE_INFINITY : 10)
  const hung = simulate(steady({ slots: 100, takes: 0, deadline: 120, rate: 1000, service }))
  const calm = after(hung)
  t.equal(count(calm, 'good'), calm.length)
  const refusedMeanwhile = hung.requests.filter(
    ({ arrived, outcome }) => arrived > 2500 && arrived < ends && outcome === 'refused',
  )
  t.ok(refusedMeanwhile.length > 300, 'a supplier that hangs is not sent everything')
  t.end()
})

t.test('a supplier that takes nearly the whole time is found to be no overload', (t) => {
  const { requests, limits } = simulate(
    steady({ slots: 50, takes: 90, deadline: 120, rate: 400, service: lognormal(85, 0.25, 7) }),
  )
  const later = requests.filter(({ arrived }) => arrived > 3000)
  const refused = count(later, 'refused')
  t.ok(refused <= later.length * 0.01, `${refused} of ${later.length}`)
  t.ok(limits.at(-1)! >= 34, `${limits.at(-1)}`)
  t.end()
})

t.test('failures that come at once do not change the limit, and give their place back', (t) => {
  const gate = new Gate()
  gate.configure(null, 8192, 0)
  const { limit } = gate
  let refused = 0
  for (let index = 0; index < 1000; index++) {
    const candidate = { due: index + 120, send() {}, refuse: () => refused++ }
    if (gate.enter(candidate, index) === 'sent') gate.dropped(index, index + 0.5)
    else refused++
  }
  t.equal(refused, 0)
  t.equal(gate.limit, limit)
  t.equal(gate.limiter.inFlight, 0)
  t.end()
})

const percent = (share: number) => `${(100 * share).toFixed(1)} %`

for (const { name, what, member } of independentFamilies)
  t.test(`time-outs that do not depend on load take nothing away: ${what}`, (t) => {
    for (const seed of [1, 3, 5, 6, 7014, 8001, 8003]) {
      const one = member(seed)
      const share = goodput(one)
      t.ok(share >= 0.95, `${name} ${seed}, ${one.what}: ${percent(share)}`)
    }
    t.end()
  })

/** The least goodput of each of these suppliers, and the mean. A supplier without room for a queue loses more. */
const bounds: Readonly<Record<string, { least?: number; mean?: number }>> = {
  sharing: { least: 0.85 },
  dropping: { least: 0.92 },
  tight: { least: 0.7, mean: 0.85 },
}

for (const { name, what, member } of loadedFamilies)
  t.test(`load is still recognized: ${what}`, (t) => {
    const { least: leastGoal = 0.95, mean: meanGoal = 0.95 } = bounds[name] ?? {}
    for (const times of multiples) {
      const shares = [1, 2, 3, 6, 8, 9].map((seed) => goodput(member(seed, times)))
      const least = Math.min(...shares)
      t.ok(least >= leastGoal, `${times}x, the least: ${percent(least)}`)
      const mean = shares.reduce((sum, share) => sum + share, 0) / shares.length
      t.ok(mean >= meanGoal, `${times}x, the mean: ${percent(mean)}`)
    }
    t.end()
  })

t.test(
  'a supplier whose work takes half of the deadline and more keeps most of its goodput',
  (t) => {
    const suppliers = [
      { slots: 4, mean: 100, deadline: 200, constant: 0.88, lognormal: 0.75 },
      { slots: 10, mean: 60, deadline: 120, constant: 0.93, lognormal: 0.75 },
      { slots: 40, mean: 30, deadline: 50, constant: 0.95, lognormal: 0.74 },
      { slots: 10, mean: 85, deadline: 120, constant: 0.88, lognormal: 0.6 },
    ]
    for (const { constant, lognormal, ...supplier } of suppliers)
      for (const times of multiples) {
        const scenario = { ...supplier, cancels: true }
        const name = `${supplier.slots} x ${supplier.mean} ms, ${times}x`
        const share = overload({ ...scenario, sigma: 0 }, times, 1).goodput
        t.ok(share >= constant, `${name}, constant work: ${percent(share)}`)
        const shares = [1, 2, 3].map((seed) => overload({ ...scenario, sigma: 0.5 }, times, seed))
        const mean = shares.reduce((sum, { goodput }) => sum + goodput, 0) / shares.length
        t.ok(mean >= lognormal, `${name}, lognormal work: ${percent(mean)}`)
      }
    t.end()
  },
)

t.test('what was measured under load is not taken for the supplier without a queue', (t) => {
  // Twice what it can do from the first request on: half of the first requests are late.
  const { gate } = simulate(steady({ takes: 100, rate: 80, deadline: 200, lasts: 10_000 }))
  const { seconds, late } = gate.limiter.unloaded
  t.ok(seconds < 0.13, `${seconds} s`)
  t.equal(late, 0)
  t.end()
})

t.test('errors that come at once do not hide an overload', (t) => {
  const { member } = loadedFamilies.find(({ name }) => name === 'errors')!
  for (const seed of [7004, 9004]) {
    const share = goodput(member(seed, 10))
    t.ok(share >= 0.9, `${seed}: ${percent(share)}`)
  }
  t.end()
})

t.test('a cold start under ten times the load does not hide all later time-outs', (t) => {
  const { member } = loadedFamilies.find(({ name }) => name === 'sharing')!
  for (const seed of [5002, 5005]) {
    const share = goodput(member(seed, 10))
    t.ok(share >= 0.8, `${seed}: ${percent(share)}`)
  }
  t.end()
})

t.test('the cause of a limit is named', (t) => {
  const cause = (scenario: Partial<Scenario> & { rate: number; takes: number }) =>
    simulate(steady(scenario)).gate.limiter.cause
  t.equal(cause({ rate: 100, takes: 20, slots: 1e6 }), 'none')
  t.equal(cause({ rate: 400, takes: 100, slots: 4, lasts: 10_000 }), 'load')
  t.equal(cause({ rate: 100, takes: 100, slots: 4, maxInFlight: 4 }), 'fixed')
  const late = bimodal(1000, 40, 0.4, 1)
  t.equal(cause({ rate: 100, takes: 40, slots: 1e6, service: late }), 'lateness')
  t.end()
})

t.test('the limiter measures what the supplier does without a queue', (t) => {
  const service = bimodal(1000, 40, 0.4, 1)
  const { gate } = simulate(steady({ rate: 200, takes: 40, slots: 1e6, service }))
  const { seconds, late } = gate.limiter.unloaded
  t.ok(Math.abs(seconds - 0.04) < 0.001, `${seconds} s`)
  t.ok(late > 0.25 && late < 0.55, `${late}`)
  t.end()
})

t.test('after 20 s without an answer in time the limit is soon what it was', (t) => {
  const latency = lognormal(40, 0.1, 1)
  const service = (time: number) => (time > 5000 && time < 25_000 ? 400 : latency())
  for (const rate of [50, 200, 1000]) {
    const scenario = { rate, takes: 40, slots: 1e6, deadline: 120, lasts: 45_000, service }
    const { requests } = simulate(steady(scenario))
    const later = requests.filter(({ arrived }) => arrived > 25_250)
    const good = count(later, 'good') / later.length
    t.ok(good >= 0.97, `${rate}/s: ${percent(good)}`)
  }
  t.end()
})

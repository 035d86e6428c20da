/** Guessed passwords: many names, many addresses, forged headers. */
import fastify from 'fastify'
import t, { type Test } from 'tap'
import { createAuth } from '../../../admin/auth/index.ts'
import { createThrottle, networkOf } from '../../../admin/auth/throttle.ts'
import { addUser } from '../../../admin/auth/users.ts'
import { openStore } from '../../../admin/store/index.ts'
import { addressOf, addressRanges, clientAddress } from '../../../opd/base/client-address.ts'
import '../../support/cheap-passwords.ts'

const log = { info() {}, warn() {}, error() {} }

t.test('the caller is the first address from the right that no trusted proxy has', (t) => {
  const trusted = addressRanges(['10.0.0.0/8', '192.0.2.7', '2001:db8:1::/48'])
  const cases: [string, string | undefined, string][] = [
    ['203.0.113.9', undefined, '203.0.113.9'],
    ['203.0.113.9', '1.1.1.1', '203.0.113.9'],
    ['10.0.0.1', undefined, '10.0.0.1'],
    ['10.0.0.1', '198.51.100.4', '198.51.100.4'],
    ['::ffff:10.0.0.1', '198.51.100.4', '198.51.100.4'],
    ['10.0.0.1', '6.6.6.6, 198.51.100.4', '198.51.100.4'],
    ['10.0.0.1', '6.6.6.6, 198.51.100.4, 10.2.3.4', '198.51.100.4'],
    ['10.0.0.1', '198.51.100.4 , 192.0.2.7', '198.51.100.4'],
    ['10.0.0.1', '198.51.100.4:4711', '198.51.100.4'],
    ['10.0.0.1', '[2001:db8:2::5]:4711', '2001:db8:2::5'],
    ['2001:db8:1::1', '2001:db8:2::5', '2001:db8:2::5'],
    ['10.0.0.1', 'unknown', '10.0.0.1'],
    ['10.0.0.1', '', '10.0.0.1'],
    ['10.0.0.1', '1.2.3', '10.0.0.1'],
    ['10.0.0.1', '0x7f.1', '10.0.0.1'],
    ['10.0.0.1', '6.6.6.6, _hidden', '10.0.0.1'],
    ['10.0.0.1', `6.6.6.6${',10.0.0.9'.repeat(500)}`, '10.0.0.9'],
    ['fe80::1%eth0', undefined, 'fe80::1'],
    ['', '1.1.1.1', ''],
  ]
  for (const [remote, forwarded, expected] of cases)
    t.equal(
      clientAddress(addressOf(remote) ?? '', forwarded, trusted),
      expected,
      `${remote} ${forwarded?.slice(0, 60)}`,
    )
  t.equal(networkOf('2001:db8::1'), networkOf('2001:db8::ffff'), 'one /64 however it is written')
  t.not(networkOf('2001:db8:0:1::1'), networkOf('2001:db8::1'))
  t.equal(networkOf('192.0.2.1'), '192.0.2.1')
  t.end()
})

function throttle() {
  const clock = { now: 1e12 }
  const { begin, succeeded, undone } = createThrottle(() => clock.now)
  return { clock, begin, succeeded, undone }
}

t.test(
  'guesses of one name from many addresses are delayed, and its user at a known address is not',
  (t) => {
    const { begin, succeeded, clock } = throttle()
    t.equal(begin('ann', '198.51.100.1'), 0)
    succeeded('ann', '198.51.100.1')
    let tried = 0
    for (let n = 0; n < 500; n++) {
      if (begin('ann', `203.0.113.${n % 250}`) === 0) tried++
      clock.now += 1000
    }
    t.ok(tried < 20, `${tried} guesses in 500 s`)
    t.equal(begin('ann', '198.51.100.1'), 0, 'the user comes in')
    succeeded('ann', '198.51.100.1')
    t.ok(begin('ann', '203.0.113.1') > 0, 'which helps the guesser nothing')
    t.end()
  },
)

t.test(
  'guesses of many names from one address are delayed, and users who have logged in there are not',
  (t) => {
    const { begin, succeeded, clock } = throttle()
    begin('ann', '198.51.100.1')
    succeeded('ann', '198.51.100.1')
    let tried = 0
    for (let n = 0; n < 500; n++) {
      if (begin(`guess-${n}`, '198.51.100.1') === 0) tried++
      clock.now += 100
    }
    t.ok(tried < 60, `${tried} names in 50 s`)
    t.equal(begin('ann', '198.51.100.1'), 0)
    t.ok(begin('eve', '198.51.100.1') > 0)
    t.equal(begin('eve', '198.51.100.2'), 0, 'another address')
    clock.now += 16 * 60_000
    t.equal(begin('bob', '198.51.100.1'), 0, 'and not for ever')
    t.end()
  },
)

t.test('a known user at a known address is guessed no faster', (t) => {
  const { begin, succeeded, clock } = throttle()
  begin('ann', '198.51.100.1')
  succeeded('ann', '198.51.100.1')
  let tried = 0
  for (let n = 0; n < 600; n++) {
    if (begin('ann', '198.51.100.1') === 0) tried++
    clock.now += 1000
  }
  t.ok(tried < 22, `${tried} guesses in 10 minutes`)
  t.end()
})

t.test('a flood from one address wipes out no other address’s guesses at a user', (t) => {
  const { begin } = throttle()
  // The guesser spends the free tries of a user, from addresses of his own.
  for (let tries = 0; tries < 100 && begin('ann', '203.0.113.1') === 0; tries++);
  const floods = ['198.51.100.1', '2001:db8::1']
  let made = 0
  // More names than the tables have entries for.
  for (let n = 0; n < 50_000; n++) if (begin(`name-${n}`, floods[n % 2]!) === 0) made++
  t.equal(made, 100, 'the rest is refused, by the address alone')
  t.ok(begin('ann', '203.0.113.1') > 0, 'the guesser still waits')
  t.ok(begin('ann', '203.0.113.2') > 0, 'from anywhere')
  t.end()
})

t.test('an attempt whose password was not checked does not count', (t) => {
  const { begin, undone } = throttle()
  for (let n = 0; n < 100; n++) {
    t.equal(begin('ann', '198.51.100.1'), 0)
    undone('ann', '198.51.100.1')
  }
  t.end()
})

t.test('a clock that is set back locks no user out', (t) => {
  const { begin, clock } = throttle()
  for (let n = 0; n < 9; n++) begin('ann', '198.51.100.1')
  t.ok(begin('ann', '198.51.100.1') > 0)
  clock.now -= 3_600_000
  t.equal(begin('ann', '198.51.100.1'), 0)
  t.end()
})

async function endpoint(t: Test, ranges: { list: readonly string[] }) {
  const store = await openStore(`sqlite:${t.testdir()}/a.db`, { now: Date.now, log })
  const auth = await createAuth(
    { embedded: { realm: 'main' } },
    // the clock does not move: no wait ends meanwhile
    {
      store,
      baseUrl: () => 'http://127.0.0.1:1',
      log,
      trustedProxies: () => ranges.list,
      now: () => 1e12,
    },
  )
  const app = fastify()
  await app.register(auth.plugin!)
  const base = await app.listen({ port: 0, host: '127.0.0.1' })
  t.teardown(async () => {
    await app.close()
    auth.close()
    await store.close()
  })
  for (const name of ['ann', 'bob']) await addUser(store, { name, password: 'correct-1' })
  return async (username: string, password: string, forwarded: string) => {
    const answer = await fetch(`${base}/auth/realms/main/protocol/openid-connect/token`, {
      method: 'POST',
      headers: { 'x-forwarded-for': forwarded },
      body: new URLSearchParams({
        client_id: 'public-client',
        grant_type: 'password',
        username,
        password,
      }),
    })
    await answer.body?.cancel()
    return answer.status
  }
}

t.test(
  'spoofed headers evade nothing; behind a trusted proxy each caller is his own',
  async (t) => {
    const ranges = { list: [] as readonly string[] }
    const login = await endpoint(t, ranges)
    const spoofed = await Promise.all(
      Array.from({ length: 53 }, (_, n) => login(`nobody-${n}`, 'wrong', `203.0.113.${n}`)),
    )
    t.equal(
      spoofed.filter((status) => status === 429).length,
      3,
      'no proxy is trusted: all these addresses are one',
    )
    t.equal(await login('ann', 'correct-1', '203.0.113.1'), 429)
    ranges.list = ['127.0.0.1']
    t.equal(await login('ann', 'correct-1', '198.51.100.1'), 200, 'another caller of the proxy')
    t.equal(await login('bob', 'correct-1', '198.51.100.2'), 200)
  },
)

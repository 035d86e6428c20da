/** Bodies that are wrong by mistake or by intent, sent to the service as it is started. */
import t from 'tap'
import { type Asked, path, seat, startWire } from '../../support/service-api.ts'

const { ask } = await startWire(t)

t.test('media types and encodings', async (t) => {
  const cases: [Asked, number][] = [
    [{ body: '{}', type: 'APPLICATION/JSON; charset=UTF-8' }, 200],
    [{ body: '{}', type: 'text/plain' }, 415],
    [{ body: '{}', type: 'application/merge-patch+json' }, 415],
    [{ body: '{}', type: null }, 415],
    [{ body: '{}', head: { 'Content-Encoding': 'gzip' } }, 415],
    [{ body: '{}', head: { 'Content-Encoding': 'identity' } }, 200],
    [{ body: Buffer.from('{}', 'utf16le') }, 400],
    [{ body: Buffer.from('{"dsp_seats":[{"name":"\xff"}]}', 'latin1') }, 400],
    [{ body: '\uFEFF{}' }, 400],
    [{ body: '' }, 400],
    [{}, 400],
    [{ body: `{"a":"${'x'.repeat(1_100_000)}"}` }, 413],
    [{ body: `{"a":"${'x'.repeat(3_000_000)}"}` }, 413],
  ]
  for (const [asked, status] of cases)
    t.equal((await ask('PUT', path, asked)).status, status, JSON.stringify(asked).slice(0, 80))
})

t.test('a call that is refused for its encoding changes nothing, and prices nothing', async (t) => {
  const head = { 'Content-Encoding': 'gzip' }
  const before = (await ask('GET', path)).headers.get('etag')
  const made = await ask('POST', path, { body: '{"dsp_seats":[{"name":"ghost"}]}', head })
  t.equal(made.status, 415)
  const held = await ask('PUT', '/api/svc/opd/acme/', { body: '{"hold":true}', head })
  t.equal(held.status, 415)
  const priced = await ask('POST', '/opd/acme_yesbid', {
    body: '{"seatbid":[{"bid":[{"id":"ghost","price":1}]}]}',
    head,
  })
  t.equal(priced.status, 415)
  t.equal(priced.headers.get('content-type'), 'application/problem+json')
  // behind whatever was still under way for them
  t.equal((await ask('PUT', path, { body: '{}' })).headers.get('etag'), before)
  t.notMatch((await ask('GET', path)).text, 'ghost')
  t.match((await ask('GET', '/api/svc/opd/')).text, '{"supplier":"acme","hold":false}')
  t.same(JSON.parse((await ask('GET', '/api/svc/reports/wins?by=ssp')).text), [])
})

t.test('values, each fault by its pointer', async (t) => {
  const center = { location: 'us', client_qps: 80, is_active: true }
  const made = await ask('POST', path, {
    body: JSON.stringify({ dsp_seats: [seat], svc: [center] }),
  })
  t.equal(made.status, 201)
  const qps = (text: string) => `{"datacenters":[{"location":"us","client_qps":${text}}]}`
  const refused: [string, number, string][] = [
    ...['1e400', '-1e400', '1.5', '-1', '9007199254740993', '"80"', 'true', '[]', '{}'].map(
      (text): [string, number, string] => [qps(text), 400, '/datacenters/0/client_qps'],
    ),
    ...['01', 'NaN', '.5', '0x1', '+1'].map((text): [string, number, string] => [
      qps(text),
      400,
      '',
    ]),
    [qps('101'), 422, '/datacenters/0/client_qps'],
    ['{"the service":[{"location":"us","client_qps":101}]}', 422, '/the service/0/client_qps'],
    ['{"svc":[{"location":"us","client_qps":-1}]}', 400, '/svc/0/client_qps'],
    ['{"svc":[{"location":"mars"}]}', 422, '/svc/0/location'],
    ['{"dsp_seats":[{"name":"s1","qps":[]}]}', 422, '/dsp_seats/0/qps'],
    ['{"dsp_seats":[{"name":"s1","is_active":null}]}', 400, '/dsp_seats/0/is_active'],
    ['{"dsp_seats":null}', 400, '/dsp_seats'],
    ['{"dsp_seats":[{"is_active":true}]}', 400, '/dsp_seats/0/name'],
    ['{"dsp_seats":[{"name":"s1","x":1}]}', 400, '/dsp_seats/0/x'],
    ['{"dsp_seats":[{"name":"s1"},{"name":"s1"}]}', 400, '/dsp_seats'],
    ['{"__proto__":{"a":1}}', 400, '/__proto__'],
    ['{"dsp_seats":[{"name":"s1","\\u006eame":"s1"}]}', 400, '/dsp_seats/0/name'],
    ['{"svc":[],"the service":[]}', 400, '/svc'],
    ['{"dsp_seats":[{"name":"a\\u0000b"}]}', 400, '/dsp_seats/0/name'],
    ['{"dsp_seats":[{"name":"a\\ud800b"}]}', 400, '/dsp_seats/0/name'],
    ['null', 400, ''],
    ['"x"', 400, ''],
  ]
  for (const [body, status, pointer] of refused) {
    const answer = await ask('PUT', path, { body })
    t.equal(answer.status, status, body)
    t.equal(answer.document.errors[0].pointer, pointer, body)
  }
  for (const text of ['0', '-0', '1.0', '80e0', 'null', '80'])
    t.equal((await ask('PUT', path, { body: qps(text) })).status, 200, text)
  const turned = { dsp_seats: [{ ...seat, qps: seat.qps.toReversed() }] }
  t.equal((await ask('PUT', path, { body: JSON.stringify(turned) })).status, 200, 'in any order')
})

t.test('what is wrong with a value is said in plain words', async (t) => {
  const name = 'n'.repeat(256)
  const details: [unknown, string][] = [
    [{ dsp_seats: [{ is_active: true }] }, 'is required'],
    [{ dsp_seats: [{ name: '' }] }, 'must not be empty'],
    [{ dsp_seats: [{ name }] }, 'must have at most 255 characters'],
    [{ dsp_seats: {} }, 'must be a list'],
    [{ svc: [{ location: 'us', is_active: 'yes' }] }, 'must be a boolean'],
    [{ svc: [{ location: 'us', client_qps: 1.5 }] }, 'must be a whole number'],
    [{ svc: [{ location: 'us', client_qps: -1 }] }, 'must be at least 0'],
    [{ dsp_seats: [{ name: 's1' }, { name: 's1' }] }, 'each seat once'],
  ]
  for (const [body, detail] of details) {
    const answer = await ask('PUT', path, { body: JSON.stringify(body) })
    t.equal(answer.document.errors[0].detail, detail)
  }
})

t.test('bodies made to hold the service are refused at once', async (t) => {
  const bodies = {
    deep: '['.repeat(400_000) + ']'.repeat(400_000),
    'deep, with keys twice': `${'{"a":'.repeat(100_000)}{${'"b":1,'.repeat(5000)}"b":1}${'}'.repeat(100_000)}`,
    'many names': `{${Array.from({ length: 90_000 }, (_, n) => `"k${n}":1`).join(',')}}`,
    'one name, many times': `{${Array.from({ length: 90_000 }, () => '"k":1').join(',')}}`,
    'many entries': `{"dsp_seats":[${'0,'.repeat(400_000)}0]}`,
  }
  for (const [name, body] of Object.entries(bodies)) {
    const answer = await ask('PUT', path, { body })
    t.equal(answer.status, 400, name)
    t.ok(answer.text.length < 20_000, `${name}: ${answer.text.length} bytes`)
  }
  t.equal((await ask('GET', path)).status, 200)
})

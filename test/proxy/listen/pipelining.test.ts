/** Nothing after a refused or last request reaches a supplier. */
import type { Socket } from 'node:net'
import t, { type Test } from 'tap'
import {
  bid,
  chunked,
  eachListener,
  finals,
  ok,
  request,
  upgrade,
  world,
} from '../../support/pipelined.ts'
import { segment } from '../../support/raw.ts'
import { field } from '../../support/responses.ts'
import { callTo } from '../../support/transport.ts'
import { until } from '../../support/until.ts'

const refused: Record<string, string> = {
  'HTTP/1.0 with chunks': chunked('Host: a\r\n', '1.0'),
  'two Hosts': request('1.1', 'Host: a\r\nHost: b\r\n'),
  'no Host': request('1.1', ''),
  'a Host of two words': request('1.1', 'Host: a b\r\n'),
  'a coding before chunks': chunked('Host: a\r\n').replace('chunked', 'gzip, chunked'),
  'two Hosts without a body': 'GET /pass/acme/x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n',
  'an unknown expectation': request('1.1', 'Host: a\r\nExpect: the-best\r\n'),
  'an unknown expectation, then a close': request(
    '1.1',
    'Host: a\r\nConnection: close\r\nExpect: the-best\r\n',
  ),
  'a tunnel': 'CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n',
  'a chunk size that is no number': chunked('Host: a\r\n').replace('2\r\n', 'ZZ\r\n'),
}
const served: Record<string, string> = {
  'a bid that closes': bid('{}', 'Connection: close\r\n'),
  'a bid that closes, in chunks': chunked('Host: a\r\nConnection: close\r\n'),
  'a bid that expects and closes': bid('{}', 'Expect: 100-continue\r\nConnection: close\r\n'),
  'HTTP/1.0': request('1.0', 'Host: a\r\n'),
}
const behind: Record<string, string> = {
  'a bid': bid('"behind"'),
  'a call of /pass': bid('"behind"', '', '/pass/acme/delete?x=1'),
  'an upgrade': upgrade,
}

eachListener((name, skip) => {
  t.test(`${name}: nothing behind a refused or last request is sent on`, { skip }, async (t) => {
    const { supplier, send, reached } = await world(t, name)
    for (const [first, bytes] of Object.entries({ ...refused, ...served }))
      for (const [second, more] of Object.entries(behind)) {
        const title = `${second} behind ${first}`
        supplier.requests.length = 0
        const answer = await send(bytes + more)
        const [response, ...others] = finals(answer.bytes)
        t.equal(others.length, 0, `${title}: one response`)
        t.equal(field(response!, 'connection'), 'close', title)
        t.ok(answer.closed)
        const ownRequests = first in served ? ['/openrtb {}'] : []
        t.equal(response!.status < 300, first in served, title)
        t.same(await reached(), [...ownRequests, '/openrtb "after"'], title)
      }
  })

  t.test(`${name}: a connection goes on behind any other refusal`, { skip }, async (t) => {
    const { supplier, send, reached } = await world(t, name)
    const large = 'x'.repeat(1001)
    const others: Record<string, [string, number]> = {
      'an unknown supplier': [bid('{}', '', '/bid/nobody'), 404],
      'another method': ['GET /bid/acme HTTP/1.1\r\nHost: a\r\n\r\n', 405],
      'an unknown caller': [bid('{}', '', '/bid/closed'), 403],
      'a body too large': [bid(large), 413],
      'a body too large, in chunks': [chunked('Host: a\r\n', '1.1', large), 413],
    }
    for (const [title, [bytes, status]] of Object.entries(others)) {
      supplier.requests.length = 0
      const answer = await send(bytes + bid('"behind"'), (text) => text.endsWith('ok'))
      const responses = finals(answer.bytes)
      t.same(
        responses.map((response) => [response.status, field(response, 'connection')]),
        [
          [status, 'keep-alive'],
          [200, 'keep-alive'],
        ],
        title,
      )
      t.same(await reached(), ['/openrtb "behind"', '/openrtb "after"'], title)
    }
  })

  t.test(
    `${name}: an old connection ends with the requests that are in it`,
    { skip },
    async (t) => {
      const { supplier, send, reached } = await world(t, name, undefined, {
        maxConnectionAge: '0s',
      })
      supplier.requests.length = 0
      for (const request of [bid('{}'), chunked('Host: a\r\n')]) {
        const { bytes, closed } = await send(request.repeat(3))
        t.ok(closed)
        const connections = finals(bytes).map((response) => field(response, 'connection'))
        t.same(connections, [...connections.slice(1).map(() => 'keep-alive'), 'close'])
        t.equal((await reached()).length, connections.length + 1, 'as many as were answered')
        supplier.requests.length = 0
      }
    },
  )

  t.test(`${name}: nothing behind the last request of a drain is sent on`, { skip }, async (t) => {
    let answer = () => {}
    const { proxy, supplier, open } = await world(t, name, (socket, text) => {
      answer = () => socket.write(ok())
      if (text.includes('"after"')) answer()
    })
    const caller = open()
    let bytes = ''
    caller.on('data', (chunk) => {
      bytes += chunk.toString('latin1')
    })
    const closed = new Promise((resolve) => caller.once('close', resolve))
    caller.write(chunked('Host: a\r\n'))
    await until(() => supplier.requests.length === 1)
    proxy.proxy.drain()
    answer()
    caller.write(bid('"behind"'))
    await closed
    await proxy.proxy.close()
    const last = finals(bytes).at(-1)!
    t.equal(field(last, 'connection'), 'close')
    t.equal(supplier.requests.length, finals(bytes).length)
  })

  t.test(
    `${name}: behind an offer to upgrade that is ignored, no body is a request`,
    { skip },
    async (t) => {
      const { open, supplier } = await world(t, name)
      const paths = ['/bid/acme', '/pass/acme/x']
      for (const path of paths)
        for (const offer of [
          'Upgrade: h2c\r\n',
          'Upgrade: websocket\r\nExpect: 100-continue\r\n',
        ]) {
          supplier.requests.length = 0
          const caller = open()
          let closed = false
          let bytes = ''
          caller
            .on('error', () => {})
            .on('close', () => {
              closed = true
            })
            .on('data', (chunk) => {
              bytes += chunk.toString('latin1')
            })
          const inner = bid('"inner"')
          const outer = bid(inner)
          const head = outer.length - inner.length
          await segment(
            caller,
            bid('"offer"', `Connection: Upgrade\r\n${offer}`, path) + outer.slice(0, head),
          )
          await until(() => finals(bytes).length > 0)
          await segment(caller, outer.slice(head))
          // The body of a whole request, or nothing of it.
          await until(() => closed || supplier.requests.length > 1)
          caller.destroy()
          const reached = supplier.requests.map(({ body }) => body)
          t.same(reached, closed ? ['"offer"'] : ['"offer"', inner], `${path} ${offer}`)
        }
    },
  )
})

t.test('nothing behind what came too late is sent on, nor its rest', async (t) => {
  // Cut in its head, and in its body.
  for (const cut of [40, bid().length - 1])
    for (const name of ['fast', 'general'] as const) {
      const { proxy, supplier, reached } = await world(t, name, undefined, { headTimeout: '100ms' })
      supplier.requests.length = 0
      // It goes on sending after the 408 and the close.
      const caller = callTo(proxy.port, { allowHalfOpen: true })
      caller.write(bid().slice(0, cut))
      let bytes = ''
      caller
        .on('error', () => {})
        .on('data', (chunk) => {
          bytes += chunk.toString('latin1')
          if (bytes.endsWith('\r\n\r\n')) caller.write(bid().slice(cut) + bid('"behind"'))
        })
      await new Promise((resolve) => caller.once('close', resolve).once('end', () => caller.end()))
      t.match(bytes, /^HTTP\/1\.1 408 /, name)
      t.same(await reached(), ['/openrtb "after"'], `${name}, cut at ${cut}`)
    }
})

/** A connection with a bid that the supplier has not answered, and `count` requests behind it. */
async function waiting(t: Test, count: number) {
  const sockets: Socket[] = []
  const { open, supplier } = await world(t, 'general', (socket, text) => {
    if (text.includes('"after"')) socket.write(ok())
    else sockets.push(socket)
  })
  const caller = open()
  let bytes = ''
  caller.on('data', (chunk) => {
    bytes += chunk.toString('latin1')
  })
  const closed = new Promise((resolve) => caller.once('close', resolve))
  caller.write(bid('"slow"'))
  await until(() => supplier.requests.length === 1)
  caller.write('GET /x HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(count))
  return { supplier, sockets, closed, bytes: () => bytes }
}

t.test('of too many requests in line the first ones are answered, the last says so', async (t) => {
  const { sockets, closed, bytes } = await waiting(t, 700)
  sockets[0]!.write(ok())
  await closed
  const heads = bytes().split('HTTP/1.1 ').slice(1)
  t.equal(heads.length, 258, 'the one that is served, 256 that may wait, and the last one')
  t.match(heads[0], /^200 /)
  t.ok(heads.slice(1).every((head) => head.startsWith('404 ')))
  t.equal(
    heads.findIndex((head) => /^connection: close\r$/im.test(head)),
    257,
  )
})

t.test('a connection with far too many requests in line is closed', async (t) => {
  const { supplier, closed, bytes } = await waiting(t, 1300)
  await closed
  t.equal(bytes(), '')
  await until(() => supplier.aborted === 1)
})

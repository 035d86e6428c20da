/** `100 Continue` on pipelined requests: between responses, never within one. */
import t from 'tap'
import { bid, chunked, eachListener, finals, ok, upgrade, world } from '../../support/pipelined.ts'
import { responsesOf } from '../../support/responses.ts'
import { until } from '../../support/until.ts'

const expecting = (body: string, path = '/bid/acme') => bid(body, 'Expect: 100-continue\r\n', path)

eachListener((name, skip) => {
  t.test(`${name}: 100 Continue comes between responses, never into one`, { skip }, async (t) => {
    const { send } = await world(t, name, (socket, text) => {
      const body = text.slice(text.indexOf('\r\n\r\n') + 4)
      // The first one is slow.
      setTimeout(() => socket.write(ok(`answer ${body}`)), body.includes('slow') ? 50 : 0)
    })
    const slow = chunked('Host: a\r\n', '1.1', '"slow"')
    const twoHosts = expecting('"B"').replace('Host: ', 'Host: b\r\nHost: ')
    const variants: Record<string, [string, number[], RegExp]> = {
      'a bid': [slow + expecting('"B"'), [200, 100, 200], /answer "slow"$|^$|answer "B"$/],
      'the third of three': [
        bid('"slow"') + bid('"A"') + expecting('"B"'),
        [200, 200, 100, 200],
        /^$|answer "(slow|A|B)"$/,
      ],
      'an unknown supplier': [
        slow + expecting('"B"', '/bid/no'),
        [200, 100, 404],
        /^$|"slow"|"code"/,
      ],
      'two Hosts': [slow + twoHosts, [200, 100, 400], /^$|"slow"|"code"/],
      'an unknown expectation': [
        slow + bid('"B"', 'Expect: the-best\r\n'),
        [200, 417],
        /^$|"slow"/,
      ],
      'a tunnel': [`${slow}CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n`, [200, 405], /^$|"slow"/],
      'an upgrade, which is ignored': [slow + upgrade, [200, 200], /^answer /],
    }
    for (const [title, [bytes, statuses, body]] of Object.entries(variants)) {
      const answer = await send(
        bytes,
        (text) => responsesOf(text)?.filter(({ complete }) => complete).length === statuses.length,
      )
      const responses = responsesOf(answer.bytes)!
      t.same(
        responses.map(({ status }) => status),
        statuses,
        title,
      )
      for (const response of responses) t.match(response.body, body, title)
    }
  })

  t.test(`${name}: a caller may wait for 100 Continue`, { skip }, async (t) => {
    const { open, supplier } = await world(t, name)
    const caller = open()
    const head = expecting('"late"').replace('"late"', '')
    let bytes = ''
    caller.on('data', (chunk) => {
      bytes += chunk.toString('latin1')
      if (bytes.endsWith('100 Continue\r\n\r\n')) caller.write('"late"')
    })
    caller.write(chunked('Host: a\r\n') + head)
    await until(() => finals(bytes).length === 2)
    t.equal(supplier.requests[1]!.body, '"late"')
    caller.destroy()
  })
})

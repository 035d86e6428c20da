/** First lines that arrived before: what is kept is what the parser of the fast lane reads. */
import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { readRequestLine } from '../../../proxy/wire/request-head.ts'
import { longestLine, notKept, RequestLines } from '../../../proxy/wire/request-lines.ts'
import { mutated } from '../../support/fuzz/mutate.ts'
import { lines } from '../../support/fuzz/requests.ts'
import { source } from '../../support/random.ts'

const fields = 'Host: a\r\nContent-Length: 2\r\n\r\n{}'
/** What a table keeps of the line of a request; null: nothing. `supplier`: the identifier by which it is looked up. */
function tableOfLines() {
  let supplier = ''
  const kept = new RequestLines((id) => {
    supplier = id
    return null
  })
  return (request: string) => {
    const place = kept.read(Buffer.from(request, 'latin1'), request)
    if (place === notKept) return null
    kept.targetOf(place)
    return { text: request.slice(0, kept.lengthOf(place)), supplier, query: kept.queryOf(place) }
  }
}

t.test('more lines than are kept, each in turn, are read as they are', async (t) => {
  const read = tableOfLines()
  const requests = Array.from(
    { length: 20_000 },
    (_, n) => `POST /bid/s${n}?n=${n % 7} HTTP/1.1\r\n${fields}`,
  )
  for (const round of ['first', 'second'])
    for (const [n, request] of requests.entries()) {
      const line = read(request)
      if (line?.supplier !== `s${n}` || line.query !== `?n=${n % 7}`)
        t.same(line, readRequestLine(request), `${round} ${n}`)
    }
})

t.test('a damaged line is read as the parser of the fast lane reads it', async (t) => {
  const random = source(11)
  const read = tableOfLines()
  let found = 0
  for (let count = 0; count < 30_000; count++) {
    const request = mutated(`POST /bid/acme?a=1 HTTP/1.1\r\n${fields}`, random, lines)
    const wanted = readRequestLine(request)
    if (wanted !== null) found++
    for (const time of [1, 2]) {
      const line = read(request)
      if (!isDeepStrictEqual(line, wanted))
        t.same(line, wanted, `${time}: ${JSON.stringify(request)}`)
    }
  }
  t.ok(found > 1000, `${found} lines were valid`)
})

t.test('a long line, and one without its end, belong to the general lane', async (t) => {
  const kept = new RequestLines(() => null)
  const read = tableOfLines()
  const lineOf = (length: number) => {
    const [start, end] = ['POST /bid/acme?', ' HTTP/1.1\r\n']
    return `${start}${'q'.repeat(length - start.length - end.length)}${end}`
  }
  t.equal(read(lineOf(longestLine) + fields)?.text, lineOf(longestLine))
  t.equal(read(lineOf(longestLine + 1) + fields), null)
  for (const part of [
    '',
    'POST',
    'POST /bid/',
    'POST /bid/acme HTTP/1.1',
    'POST /bid/acme HTTP/1.1\r',
  ])
    t.equal(read(part), null, JSON.stringify(part))
  const request = `POST /bid/acme HTTP/1.1\r\n${fields}`
  for (let count = 0; count < request.indexOf('\n') + 1; count++)
    t.equal(
      kept.read(Buffer.from(request), request.slice(0, count)),
      notKept,
      `${count} bytes, and older ones behind them`,
    )
})

t.test('the supplier of a line is looked up once, and again after it was removed', async (t) => {
  const suppliers = new Map<string, { name: string; removed: boolean }>()
  let found = 0
  const kept = new RequestLines((id) => {
    found++
    return suppliers.get(id) ?? null
  })
  const supplier = () => kept.targetOf(kept.read(Buffer.from(request), request))?.name ?? null
  const request = `POST /bid/acme HTTP/1.1\r\n${fields}`
  t.equal(supplier(), null)
  const first = { name: 'first', removed: false }
  suppliers.set('acme', first)
  t.same([supplier(), supplier(), supplier(), found], ['first', 'first', 'first', 2])
  first.removed = true
  suppliers.delete('acme')
  t.equal(supplier(), null)
  suppliers.set('acme', { name: 'second', removed: false })
  t.equal(supplier(), 'second')
})

t.test('suppliers of 3,000 lines in turn are looked up once, but for a few', async (t) => {
  let found = 0
  const kept = new RequestLines((id) => {
    found++
    return { id, removed: false }
  })
  const ids = Array.from({ length: 3000 }, (_, n) => `supplier-${n}`)
  for (const round of ['first', 'second']) {
    found = 0
    for (const id of ids) {
      const request = `POST /bid/${id} HTTP/1.1\r\n${fields}`
      const target = kept.targetOf(kept.read(Buffer.from(request), request))
      if (target?.id !== id) t.equal(target?.id, id, round)
    }
  }
  t.ok(found < 60, `${found} were looked up again`)
})

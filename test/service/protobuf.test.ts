/** A bid in Protocol Buffers from the request to its win notice. */
import t from 'tap'
import { bytes, double, fieldsOf, lastOf } from '../support/protobuf-bytes.ts'
import { serveNode } from '../support/served-node.ts'
import { httpSupplier } from '../support/supplier.ts'

const nurl = 'https://t.example/win?svc_opd=${SVC_OPD_CONTEXT}&in=${SVC_OPD_IN_BID_PRICE}'
const bid = bytes(1, [bytes(1, 'bid-1'), bytes(2, '1'), double(3, 2.4), bytes(5, nurl)])
const answer = Buffer.concat([bytes(1, 'auction-1'), bytes(2, [bid, bytes(2, 'seat-1')])])
const request = Buffer.concat([bytes(1, 'auction-1'), bytes(2, [bytes(1, '1'), double(8, 1)])])

t.test('a priced bid in Protocol Buffers is attributed to its decision', async (t) => {
  const supplier = await httpSupplier((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/octet-stream' }).end(answer)
  })
  const node = await serveNode({
    endpoint: supplier.url,
    suppliers: ['id: acme, openrtb: protobuf, opd: {enabled: true, holdout: 0, explore: 0}'],
  })
  t.teardown(async () => {
    await node.stop()
    await supplier.close()
  })
  const response = await fetch(`http://127.0.0.1:${node.bidweir.proxyPort}/bid/acme`, {
    method: 'POST',
    headers: { 'content-type': 'application/octet-stream' },
    body: new Uint8Array(request),
  })
  t.equal(response.headers.get('content-type'), 'application/octet-stream')
  const body = Buffer.from(await response.arrayBuffer())
  const [priced] = fieldsOf(lastOf(fieldsOf(body), 2, 2)!.value)
  const fields = fieldsOf(priced!.value)
  const price = lastOf(fields, 3, 1)!.value.readDoubleLE()
  t.ok(price >= 1 && price < 2.4, `${price}`)
  const url = new URL(lastOf(fields, 5, 2)!.value.toString())
  t.equal(url.searchParams.get('in'), '2.4')

  const svcOpd = url.searchParams.get('svc_opd')!
  const notice = new URLSearchParams({ bid_id: 'bid-1', price: String(price), svc_opd: svcOpd })
  const win = await node.api(`/opd/imp?${notice}`)
  t.match(await win.json(), { status: 'attributed', by: 'context' })
  const explained = await node.api(`/api/svc/decisions/${svcOpd}?bid_id=bid-1`)
  t.match(await explained.json(), {
    ssp: 'acme',
    in_ba: '2.4',
    out_ba: String(price),
    floor: 1,
    seat: 'seat-1',
  })
})

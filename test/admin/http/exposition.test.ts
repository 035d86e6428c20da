/** The format of /metrics that a scraper gets. */
import t from 'tap'
import { preferredFormat } from '../../../admin/http/exposition.ts'

const protobuf =
  'application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited'

t.test('a scraper gets Protocol Buffers only if it prefers them', async (t) => {
  for (const [accept, format] of [
    // Prometheus 3.16, with native histograms and without them
    [
      `${protobuf};q=0.6,application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1`,
      'protobuf',
    ],
    [
      'application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=1.0.0;q=0.4,*/*;q=0.1',
      'text',
    ],
    [protobuf, 'protobuf'],
    [protobuf.toUpperCase(), 'protobuf'],
    [`${protobuf};q=0.2, text/plain;q=0.3`, 'text'],
    [`${protobuf};q=0.2, text/*;q=0.1`, 'protobuf'],
    [`${protobuf};q=0`, 'text'],
    [`${protobuf};q=nonsense`, 'text'],
    ['application/vnd.google.protobuf', 'text'],
    [protobuf.replace('delimited', 'text'), 'text'],
    [protobuf.replace('MetricFamily', 'Other'), 'text'],
    ['*/*', 'text'],
    ['', 'text'],
    [undefined, 'text'],
    [',;;=,', 'text'],
  ] as const)
    t.equal(preferredFormat(accept), format, `${accept}`)
})

/** The id of a bid request, by which logs name it. */
import t from 'tap'
import { requestIdOf } from '../../../opd/protobuf/request-id.ts'
import { ProtobufWriter } from '../../../opd/protobuf/writer.ts'

const imp = new ProtobufWriter().text(1, 'of an imp')

for (const [title, request, id] of [
  ['JSON', '{"id":"auction-1"}', 'auction-1'],
  [
    'JSON after a line feed, which begins an id in Protocol Buffers',
    '\n{"id":"auction-1"}',
    'auction-1',
  ],
  [
    'Protocol Buffers',
    new ProtobufWriter().text(1, 'auction-1').message(2, imp).bytes(),
    'auction-1',
  ],
  [
    'an id that is not the first field',
    new ProtobufWriter().message(2, imp).text(1, 'a').bytes(),
    'a',
  ],
  ['JSON without an id', '{}', undefined],
  ['a message without an id', new ProtobufWriter().message(2, imp).bytes(), undefined],
  ['bytes that are neither', Buffer.from([0x0b, 1, 2]), undefined],
  ['nothing', '', undefined],
  ['more than 64 KiB', `{"id":"a"${' '.repeat(65_536)}}`, undefined],
] as const)
  t.test(title, async (t) => {
    t.equal(requestIdOf(request), id)
    if (typeof request !== 'string') t.equal(requestIdOf(request.toString('latin1')), id)
  })

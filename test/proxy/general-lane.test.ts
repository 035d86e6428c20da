/** The tests of the fast lane, on the general lane: both must pass them. */
import t from 'tap'

const subjects = [
  'admission/admission',
  'listen/attacks',
  'exchange/bid',
  'exchange/deadlines',
  'exchange/encodings',
  'upstream/endpoints',
  'exchange/faults',
  'listen/life',
  'exchange/eligible-responses',
  'memory',
  'exchange/request-bodies',
  'admission/overload',
  'listen/pipelined-connections',
  'exchange/vectors',
]

// They run once all of them are loaded.
t.test('the tests that follow are on the general lane', async () => {
  process.env['TEST_LANE'] = 'general'
  for (const subject of subjects) await import(`./${subject}.test.ts`)
})

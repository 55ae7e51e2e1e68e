import t from 'tap'
import { withoutServers } from '../support/servers.ts'
import { killWhileWriting } from './usage-kill.ts'

/** `LARKWAY_TEST_USAGE_RECORDS=2000000 npm test -- test/usage/kill.long.test.ts` takes fewer. */
const RECORDS = Number(process.env.LARKWAY_TEST_USAGE_RECORDS ?? 10_000_000)

t.test(
  `nothing is lost, and nothing twice, of ${RECORDS} records`,
  { skip: withoutServers, timeout: 1_750_000 },
  (t) => killWhileWriting(t, RECORDS),
)

import t from 'tap'
import { withoutServers } from '../support/servers.ts'
import { publishUnderLoad } from './console-publish.ts'

const PUBLICATIONS = process.env.LARKWAY_TEST_LONG === '1' ? 1_000 : 80

t.test(
  `${PUBLICATIONS} publications under load: no call sees half of one, and none fails`,
  { skip: withoutServers, timeout: 600_000 },
  (t) => publishUnderLoad(t, PUBLICATIONS),
)

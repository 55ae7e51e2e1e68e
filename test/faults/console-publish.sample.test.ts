import t from 'tap'
import { withoutServers } from '../support/servers.ts'
import { publishUnderLoad } from './console-publish.ts'

t.test(
  '20 publications under load: no call sees half of one, and none fails',
  { skip: withoutServers },
  (t) => publishUnderLoad(t, 20),
)

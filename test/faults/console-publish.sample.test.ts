import t from 'tap'
import { publishUnderLoad } from '../support/console-publish.ts'
import { withoutServers } from '../support/servers.ts'

t.test(
  '20 publications under load: no call sees half of one, and none fails',
  { skip: withoutServers },
  (t) => publishUnderLoad(t, 20),
)

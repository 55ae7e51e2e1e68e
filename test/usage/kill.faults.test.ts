import t from 'tap'
import { withoutServers } from '../support/servers.ts'
import { killWhileWriting } from './usage-kill.ts'

const RECORDS = 15_000

const title =
  'three nodes that are killed, and a store that goes away, neither lose a record nor have one twice'
t.test(title, { skip: withoutServers, timeout: 300_000 }, (t) => killWhileWriting(t, RECORDS))

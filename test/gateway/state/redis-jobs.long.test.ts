import t from 'tap'
import { withoutServers } from '../../support/servers.ts'
import { costsTheSame } from './jobs-cost.ts'

// Over two gigabytes of memory, and a minute to write them.
t.test('a million jobs make none dearer', { skip: withoutServers }, (t) => costsTheSame(t, 1000, 1_000_000))

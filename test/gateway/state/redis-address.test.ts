import t from 'tap'
import { readEnvironment } from '../../../src/gateway/node/config.ts'
import { parseRedisAddress, type RedisAddress } from '../../../src/gateway/state/redis/connect.ts'

const NOBODY = { username: null, password: null, tls: false }
const host = (name: string, port: number) => ({ host: name, port })

const GOOD: readonly (readonly [string, RedisAddress])[] = [
  ['redis://localhost', { ...NOBODY, mode: 'single', host: host('localhost', 6379), database: 0 }],
  ['redis://127.0.0.1:7000/', { ...NOBODY, mode: 'single', host: host('127.0.0.1', 7000), database: 0 }],
  ['redis://[::1]:7000/15', { ...NOBODY, mode: 'single', host: host('::1', 7000), database: 15 }],
  [
    'rediss://me:p%40ss%3A%2F%25@redis.example.com:6380/2',
    {
      ...{ mode: 'single', host: host('redis.example.com', 6380), database: 2 },
      ...{ username: 'me', password: 'p@ss:/%', tls: true },
    },
  ],
  ['redis://:a:b@h', { ...NOBODY, password: 'a:b', mode: 'single', host: host('h', 6379), database: 0 }],
  [
    'redis+sentinel://one,two:5000,[fe80::1]/my%20master',
    {
      ...NOBODY,
      mode: 'sentinel',
      hosts: [host('one', 26379), host('two', 5000), host('fe80::1', 26379)],
      master: 'my master',
      database: 0,
    },
  ],
  [
    'rediss+sentinel://:secret@one:1/larkway/3',
    {
      ...{ mode: 'sentinel', hosts: [host('one', 1)], master: 'larkway', database: 3 },
      ...{ username: null, password: 'secret', tls: true },
    },
  ],
  [
    'redis+cluster://u:p@10.0.0.1:7000,10.0.0.2:7001',
    {
      ...{ mode: 'cluster', hosts: [host('10.0.0.1', 7000), host('10.0.0.2', 7001)] },
      ...{ username: 'u', password: 'p', tls: false },
    },
  ],
  ['rediss+cluster://h/', { ...NOBODY, mode: 'cluster', hosts: [host('h', 6379)], tls: true }],
]

t.test('what an address says', async (t) => {
  for (const [address, expected] of GOOD) {
    t.same(parseRedisAddress(address), expected, address)
    t.equal(readEnvironment({ REDIS_URL: address }).REDIS_URL, address, 'and the environment takes it')
  }
})

const BAD = [
  ...['http://h', 'redis:h', 'redis://', 'redis://sEcRet@h', 'redis://user:@sEcRet', 'redis://:sEcRet@'],
  ...['redis://:sEcRet%zz@h', 'redis://:sEcRet@h:0', 'redis://:sEcRet@h:65536', 'redis://:sEcRet@h:6379x'],
  ...['redis://:sEcRet@h/a', 'redis://:sEcRet@h/1/2', 'redis://:sEcRet@h/-1', 'redis://:sEcRet@h?family=6'],
  ...['redis://:sEcRet@h#1', 'redis://:sEcRet@one,two', 'redis://:sEc@Ret@h', 'redis://:sEcRet@h h'],
  ...['redis+sentinel://:sEcRet@h', 'redis+sentinel://:sEcRet@h/', 'redis+sentinel://:sEcRet@h/master/0/x'],
  ...['redis+sentinel://:sEcRet@h,/master', 'redis+cluster://:sEcRet@h/0', 'redis+cluster://:sEcRet@h,,i'],
  'redis+other://:sEcRet@h',
]

t.test('what is no address is refused, and not repeated', async (t) => {
  for (const address of BAD) {
    const error = t.throws(() => parseRedisAddress(address), { message: /^REDIS_URL / }, address)
    t.notMatch(String(error), /sEc|Ret/)
  }
})

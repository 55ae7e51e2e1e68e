import t from 'tap'
import { compareHeader, script } from '../../../src/gateway/state/redis/script.ts'

const LUA = `-- Moves a thing.
--
-- KEYS from to
-- ARGV token lease_ms
-- Reply 1 | 0

-- KEYS of no header
local from = KEYS[1]
`

t.test('the names of the code are those of the file, in order', async (t) => {
  compareHeader('move_thing', LUA, 'KEYS', ['from', 'to'])
  compareHeader('move_thing', LUA, 'ARGV', ['token', 'lease_ms'])
  const wrong: readonly (readonly [readonly string[], string])[] = [
    [['lease_ms', 'token'], 'lease_ms token'],
    [['token'], 'token'],
    [['token', 'lease_ms', 'ttl_ms'], 'token lease_ms ttl_ms'],
    [[], ''],
  ]
  for (const [names, text] of wrong) {
    t.throws(() => compareHeader('move_thing', LUA, 'ARGV', names), {
      message: `move_thing.lua: ARGV is "token lease_ms", code says "${text}"`,
    })
  }
  compareHeader('no_input', '-- Counts all.\nreturn 1\n', 'KEYS', [])
})

t.test('a script whose file says otherwise cannot be made', async (t) => {
  const reply = () => null
  t.throws(
    () => script('rate-limiter/return_tokens', { keys: ['bucket'], args: ['tokens', 'interval_us'], reply }),
    {
      message: 'rate-limiter/return_tokens.lua: ARGV is "interval_us tokens", code says "tokens interval_us"',
    },
  )
  t.throws(() => script('rate-limiter/take_nothing', { keys: [], args: [], reply }), { code: 'ENOENT' })
})

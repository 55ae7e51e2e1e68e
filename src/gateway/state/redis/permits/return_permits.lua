-- Gives back what tokens hold of some names, or their places in their queues, and hands free permits on.
--
-- KEYS permits
-- ARGV tokens node lease_ms limits
-- Reply {contention ..., token ...}: who else waits, for each of the names; then the tokens of the node that got a permit
--   of one of them
--
-- `tokens`: JSON, [token, ...] `limits`: JSON, [[name, most], ...]
--
-- May arrive more than once, and for tokens that hold nothing.

local tokens, node, lease_ms, limits = cjson.decode(ARGV[1]), ARGV[2], tonumber(ARGV[3]), cjson.decode(ARGV[4])
local now = now_ms()

local reply = {}
for at, limit in ipairs(limits) do
  local name, most = limit[1], limit[2]
  redis.call('ZREM', permits .. ':held:' .. name, unpack(tokens))
  redis.call('ZREM', permits .. ':waiting:' .. name, unpack(tokens))
  serve(name, most, now, lease_ms)
  table.insert(reply, at, contention(name, most, node, now))
  for _, granted in ipairs(granted_to(node, name)) do reply[#reply + 1] = granted end
end
return reply

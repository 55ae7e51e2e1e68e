-- Gives back what tokens hold of some names, or their places in their queues, and hands free slots on.
--
-- KEYS slots
-- ARGV tokens node lease_ms limits
-- Reply {calm, token ...}: '1' when the node may keep what it gives back of these names next, else '0'; the tokens of
--   the node that got a slot of one of the names
--
-- `tokens`: JSON, [token, ...]
-- `limits`: JSON, [[name, most], ...]
--
-- May arrive more than once, and for tokens that hold nothing.

local tokens, node, lease_ms, limits = cjson.decode(ARGV[1]), ARGV[2], tonumber(ARGV[3]), cjson.decode(ARGV[4])
local now = now_ms()

local reply = { '1' }
for _, limit in ipairs(limits) do
  local name, most = limit[1], limit[2]
  redis.call('ZREM', slots .. ':held:' .. name, unpack(tokens))
  redis.call('ZREM', slots .. ':waiting:' .. name, unpack(tokens))
  serve(name, most, now, lease_ms)
  if calm(name, most, now) == '0' then reply[1] = '0' end
  for _, granted in ipairs(granted_to(node, name)) do reply[#reply + 1] = granted end
end
return reply

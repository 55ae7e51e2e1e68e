-- Gives back what a token holds of some names, or its places in their queues, and hands free slots on.
--
-- KEYS slots
-- ARGV token node lease_ms limits
-- Reply the tokens of the node that got a slot of one of the names
--
-- `limits`: JSON, [[name, most], ...]
--
-- May arrive more than once, and for a token that holds nothing.

local token, node, lease_ms, limits = ARGV[1], ARGV[2], tonumber(ARGV[3]), cjson.decode(ARGV[4])
local now = now_ms()

local reply = {}
for _, limit in ipairs(limits) do
  redis.call('ZREM', slots .. ':held:' .. limit[1], token)
  redis.call('ZREM', slots .. ':waiting:' .. limit[1], token)
  serve(limit[1], limit[2], now, lease_ms)
  for _, granted in ipairs(granted_to(node, limit[1])) do reply[#reply + 1] = granted end
end
return reply

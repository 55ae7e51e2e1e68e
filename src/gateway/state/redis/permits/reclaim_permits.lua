-- Frees what a node has of some names and does not know of, in their queues too, and hands free permits on: what was given
-- back, or left, while Redis was away. A server that takes no writes refuses this, whatever there is to free.
--
-- KEYS permits
-- ARGV node newest known lease_ms limits
-- Reply {token ...}: the tokens of the node that got a permit of one of the names
--
-- `newest`: number of the node's newest token; what it has taken since is left alone `known`: JSON, [token, ...] that
-- hold a permit, wait for one, or are being asked for `limits`: JSON, [[name, most], ...]

local node, newest, lease_ms, limits = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[4]), cjson.decode(ARGV[5])
local now = now_ms()

redis.call('SET', permits .. ':back:' .. node, ARGV[2], 'PX', integer(lease_ms))

local known = {}
for _, token in ipairs(cjson.decode(ARGV[3])) do known[token] = true end

local function reclaim(key)
  for _, token in ipairs(redis.call('ZRANGE', key, 0, -1)) do
    local owner, number = string.match(token, '^([^.]+)%.(%d+)$')
    if owner == node and tonumber(number) <= newest and not known[token] then redis.call('ZREM', key, token) end
  end
end

local reply = {}
for _, limit in ipairs(limits) do
  local name, most = limit[1], limit[2]
  reclaim(permits .. ':held:' .. name)
  reclaim(permits .. ':waiting:' .. name)
  serve(name, most, now, lease_ms)
  for _, granted in ipairs(granted_to(node, name)) do reply[#reply + 1] = granted end
end
return reply

-- Renews what a node holds. What Redis has lost meanwhile, in an outage or a failover, counts again.
--
-- KEYS permits
-- ARGV lease_ms held
-- Reply 0
--
-- `held`: JSON, [[name, token], ...]

local lease_ms, held = tonumber(ARGV[1]), cjson.decode(ARGV[2])
local now = now_ms()

for _, one in ipairs(held) do hold(one[1], one[2], now, lease_ms) end
return 0

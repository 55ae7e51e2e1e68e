-- Takes a permit of each name for a token, or none of them.
--
-- KEYS permits
-- ARGV token lease_ms limits
-- Reply the place of the first name, from 1, that has no permit left; 0: all were taken
--
-- `limits`: JSON, [[name, most], ...]

local token, lease_ms, limits = ARGV[1], tonumber(ARGV[2]), cjson.decode(ARGV[3])
local now = now_ms()

for place, limit in ipairs(limits) do
  if held_count(limit[1], now) >= limit[2] then return place end
end
for _, limit in ipairs(limits) do hold(limit[1], token, now, lease_ms) end
return 0

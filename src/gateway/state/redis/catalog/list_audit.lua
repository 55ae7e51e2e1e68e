-- Lines of the audit list, the newest first.
--
-- KEYS catalog never
-- ARGV workspace below limit
-- Reply their texts
--
-- An empty workspace is any; an empty `below`: from the newest on.

local newest, limit = redis.call('HLEN', key('audit')), tonumber(ARGV[3])
if ARGV[2] ~= '' then newest = math.min(newest, tonumber(ARGV[2]) - 1) end

local numbers = {}
if ARGV[1] == '' then
  for number = newest, math.max(1, newest - limit + 1), -1 do table.insert(numbers, number) end
else
  numbers = redis.call('ZREVRANGEBYSCORE', key('audit', ARGV[1]), digits(newest), '-inf', 'LIMIT', 0, limit)
end

local lines = {}
for _, number in ipairs(numbers) do table.insert(lines, field('audit', number)) end
return lines

# The web pages of Sidekiq as a browser requests them, with a cookie.

require "json"
require "rack"
require "rack/mock"
require "sidekiq/web"

class Pages
  def initialize
    pages = Rack::Builder.app do
      use Rack::Session::Cookie, secret: "of a test" * 10
      run Sidekiq::Web
    end
    @browser = Rack::MockRequest.new(pages)
    @cookie = ""
  end

  def get(path)
    text_of(path, @browser.get(path, "HTTP_COOKIE" => @cookie), 200)
  end

  # Submits the form of another page, with the token hidden in it.
  def post(path, from:, form: "")
    token = get(from)[/name=['"]authenticity_token['"] value=['"]([^'"]+)/, 1] or raise "#{from} has no form"
    body = "authenticity_token=#{Rack::Utils.escape(token)}&#{form}"
    text_of(path, @browser.post(path, "HTTP_COOKIE" => @cookie, :input => body), 302)
  end

  # Returns one or several of the numbers at the top of each page.
  def stats(*names)
    numbers = JSON.parse(get("/stats")).fetch("sidekiq").values_at(*names)
    names.one? ? numbers.first : numbers
  end

  # Returns the dashboard's information about the server.
  def server
    JSON.parse(get("/stats")).fetch("redis")
  end

  private

  def text_of(path, response, status)
    raise "#{path} answered #{response.status}: #{response.body[0, 200]}" unless response.status == status
    cookie = response["Set-Cookie"]
    @cookie = cookie.split(";").first if cookie
    response.body
  end
end

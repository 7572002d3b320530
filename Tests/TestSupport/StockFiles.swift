/// The configurations that nginx comes with, in their known form.
package enum StockFiles {
  /// Debian 12: /etc/nginx/nginx.conf.
  package static let debian = """
    user www-data;
    worker_processes auto;
    pid /run/nginx.pid;
    error_log /var/log/nginx/error.log;
    include /etc/nginx/modules-enabled/*.conf;

    events {
    \tworker_connections 768;
    \t# multi_accept on;
    }

    http {

    \t##
    \t# Basic Settings
    \t##

    \tsendfile on;
    \ttcp_nopush on;
    \ttypes_hash_max_size 2048;
    \t# server_tokens off;

    \t# server_names_hash_bucket_size 64;
    \t# server_name_in_redirect off;

    \tinclude /etc/nginx/mime.types;
    \tdefault_type application/octet-stream;

    \t##
    \t# SSL Settings
    \t##

    \tssl_protocols TLSv1 TLSv1.1 TLSv1.2 TLSv1.3; # Dropping SSLv3, ref: POODLE
    \tssl_prefer_server_ciphers on;

    \t##
    \t# Logging Settings
    \t##

    \taccess_log /var/log/nginx/access.log;

    \t##
    \t# Gzip Settings
    \t##

    \tgzip on;

    \t# gzip_vary on;
    \t# gzip_proxied any;
    \t# gzip_comp_level 6;
    \t# gzip_buffers 16 8k;
    \t# gzip_http_version 1.1;
    \t# gzip_types text/plain text/css application/json application/javascript text/xml;

    \t##
    \t# Virtual Host Configs
    \t##

    \tinclude /etc/nginx/conf.d/*.conf;
    \tinclude /etc/nginx/sites-enabled/*;
    }
    """

  /// Debian 12: /etc/nginx/sites-enabled/default.
  package static let debianSite = """
    server {
    \tlisten 80 default_server;
    \tlisten [::]:80 default_server;

    \troot /var/www/html;

    \t# Add index.php to the list if you are using PHP
    \tindex index.html index.htm index.nginx-debian.html;

    \tserver_name _;

    \tlocation / {
    \t\t# First attempt to serve request as file, then
    \t\t# as directory, then fall back to displaying a 404.
    \t\ttry_files $uri $uri/ =404;
    \t}

    \t# deny access to .htaccess files, if Apache's document root
    \t# concurs with nginx's one
    \t#
    \t#location ~ /\\.ht {
    \t#\tdeny all;
    \t#}
    }
    """

  /// The official image: /etc/nginx/nginx.conf.
  package static let image = """

    user  nginx;
    worker_processes  auto;

    error_log  /var/log/nginx/error.log notice;
    pid        /var/run/nginx.pid;


    events {
        worker_connections  1024;
    }


    http {
        include       /etc/nginx/mime.types;
        default_type  application/octet-stream;

        log_format  main  '$remote_addr - $remote_user [$time_local] "$request" '
                          '$status $body_bytes_sent "$http_referer" '
                          '"$http_user_agent" "$http_x_forwarded_for"';

        access_log  /var/log/nginx/access.log  main;

        sendfile        on;
        #tcp_nopush     on;

        keepalive_timeout  65;

        #gzip  on;

        include /etc/nginx/conf.d/*.conf;
    }
    """

  /// The official image: /etc/nginx/conf.d/default.conf.
  package static let imageSite = """
    server {
        listen       80;
        listen  [::]:80;
        server_name  localhost;

        #access_log  /var/log/nginx/host.access.log  main;

        location / {
            root   /usr/share/nginx/html;
            index  index.html index.htm;
        }

        #error_page  404              /404.html;

        # redirect server error pages to the static page /50x.html
        #
        error_page   500 502 503 504  /50x.html;
        location = /50x.html {
            root   /usr/share/nginx/html;
        }
    }
    """

  /// The beginning of mime.types.
  package static let types = """

    types {
        text/html                                        html htm shtml;
        text/css                                         css;
        text/xml                                         xml;
        image/gif                                        gif;
        image/jpeg                                       jpeg jpg;
        application/javascript                           js;
        text/plain                                       txt;
        image/png                                        png;
        application/json                                 json;
        video/mp4                                        mp4;
    }
    """
}
